// Reads an endless stream until something ends it.
import Anthropic from '@anthropic-ai/sdk';

const [baseURL, apiKey] = process.argv.slice(1);
const ask = { model: 'claude-haiku-4-5', max_tokens: 64, messages: [{ role: 'user', content: 'hello' }] };
const headers = { 'x-test-events': 'endless', 'x-test-interval-ms': '20' };
let raised = null;
try {
  await new Anthropic({ baseURL, apiKey }).messages.stream(ask, { headers }).finalMessage();
} catch (error) {
  raised = error.constructor.name;
}
console.log(JSON.stringify({ raised }));
