// Hears two events of an endless stream and hangs up: by leaving the loop, and by its own switch.
import Anthropic from '@anthropic-ai/sdk';

const [baseURL, apiKey] = process.argv.slice(1);
const client = new Anthropic({ baseURL, apiKey });
const messages = [{ role: 'user', content: 'hello' }];
const ask = { model: 'claude-haiku-4-5', max_tokens: 64, messages };
const headers = { 'x-test-events': 'endless', 'x-test-interval-ms': '20' };
let heard = 0;

let here = 0;
for await (const _ of await client.messages.create({ ...ask, stream: true }, { headers })) {
  heard += 1;
  if ((here += 1) === 2) break;
}
const stream = client.messages.stream(ask, { headers });
here = 0;
try {
  for await (const _ of stream) {
    heard += 1;
    if ((here += 1) === 2) stream.abort();
  }
} catch (error) {
  if (!(error instanceof Anthropic.APIUserAbortError)) throw error;
}
await client.messages.countTokens({ model: ask.model, messages });
console.log(JSON.stringify({ streams: 2, heard, calls: 3 }));
