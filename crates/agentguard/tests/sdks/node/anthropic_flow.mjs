// What Anthropic's own client does all day, one call after the other and eight at once.
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';

const [baseURL, apiKey] = process.argv.slice(1);
const client = new Anthropic({ baseURL, apiKey });
const messages = [{ role: 'user', content: 'hello' }];
const ask = { model: 'claude-haiku-4-5', max_tokens: 64, messages };
const text = 'w0 w1 w2 w3 w4 w5 w6 w7';
const said = { calls: 0, streams: 0 };

const one = (answer) => {
  said.calls += 1;
  return answer;
};
const streamed = (answer) => {
  said.streams += 1;
  return one(answer);
};

const whole = one(await client.messages.create({ ...ask, system: 'be brief' }));
assert.equal(whole.content[0].text, text);
assert.equal(whole.stop_reason, 'end_turn');
assert.ok(one(await client.messages.countTokens({ model: ask.model, messages })).input_tokens > 0);

const kinds = [];
for await (const event of streamed(await client.messages.create({ ...ask, stream: true }))) kinds.push(event.type);
assert.equal(kinds[0], 'message_start');
assert.equal(kinds.at(-1), 'message_stop');

const helper = streamed(client.messages.stream(ask));
let heard = '';
helper.on('text', (delta) => (heard += delta));
const final = await helper.finalMessage();
assert.equal(heard, text);
assert.equal(final.content[0].text, text);
assert.equal(final.usage.output_tokens, 8);

const answers = await Promise.all([
  ...Array.from({ length: 4 }, async () => one(await client.messages.create(ask)).content[0].text),
  ...Array.from({ length: 4 }, async () => streamed(client.messages.stream(ask)).finalText()),
]);
assert.deepEqual(answers, Array(8).fill(text));
console.log(JSON.stringify(said));
