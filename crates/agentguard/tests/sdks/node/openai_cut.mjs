// Reads an endless stream until something ends it.
import OpenAI from 'openai';

const [baseURL, apiKey] = process.argv.slice(1);
const chat = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hello' }], stream: true };
const headers = { 'x-test-events': 'endless', 'x-test-interval-ms': '20' };
let raised = null;
try {
  const stream = await new OpenAI({ baseURL, apiKey }).chat.completions.create(chat, { headers });
  for await (const _ of stream);
} catch (error) {
  raised = error.constructor.name;
}
console.log(JSON.stringify({ raised }));
