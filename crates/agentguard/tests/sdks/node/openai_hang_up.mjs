// Hears two events of an endless stream and hangs up: by leaving the loop, and by its own switch.
import OpenAI from 'openai';

const [baseURL, apiKey] = process.argv.slice(1);
const client = new OpenAI({ baseURL, apiKey });
const chat = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hello' }], stream: true };
const headers = { 'x-test-events': 'endless', 'x-test-interval-ms': '20' };
let heard = 0;

let here = 0;
for await (const _ of await client.chat.completions.create(chat, { headers })) {
  heard += 1;
  if ((here += 1) === 2) break;
}
const stream = await client.responses.create({ model: 'gpt-4o-mini', input: 'hello', stream: true }, { headers });
const events = stream[Symbol.asyncIterator]();
for (here = 0; here < 2; here += 1) {
  await events.next();
  heard += 1;
}
stream.controller.abort();
await client.models.list();
console.log(JSON.stringify({ streams: 2, heard, calls: 3 }));
