// What OpenAI's own client does all day, one call after the other and eight at once.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const [baseURL, apiKey] = process.argv.slice(1);
const client = new OpenAI({ baseURL, apiKey });
const chat = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hello' }] };
const old = { model: 'gpt-3.5-turbo-instruct', prompt: 'hello' };
const text = 'w0 w1 w2 w3 w4 w5 w6 w7';
const said = { calls: 0, streams: 0 };

const one = (answer) => {
  said.calls += 1;
  return answer;
};
const all = async (stream) => {
  said.calls += 1;
  said.streams += 1;
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
};
const spoken = (chunks) => chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');

assert.ok(one(await client.models.list()).data.some((model) => model.id === 'gpt-4o-mini'));

const whole = one(await client.chat.completions.create(chat));
assert.equal(whole.choices[0].message.content, text);
assert.equal(whole.usage.completion_tokens, 8);

let chunks = await all(await client.chat.completions.create({ ...chat, stream: true }));
assert.equal(spoken(chunks), text);
assert.ok(chunks.every((chunk) => !chunk.usage && chunk.choices.length === 1), 'usage that was not asked for');
chunks = await all(
  await client.chat.completions.create({ ...chat, stream: true, stream_options: { include_usage: true } }),
);
assert.equal(spoken(chunks), text);
assert.equal(chunks.at(-1).usage.completion_tokens, 8);
said.calls += 1;
said.streams += 1;
const helper = client.chat.completions.stream(chat);
assert.equal((await helper.finalChatCompletion()).choices[0].message.content, text);

const answer = one(await client.responses.create({ model: 'gpt-4o-mini', input: 'hello' }));
assert.equal(answer.output_text, text);
const events = await all(await client.responses.create({ model: 'gpt-4o-mini', input: 'hello', stream: true }));
assert.equal(events.at(-1).type, 'response.completed');
assert.equal(events.filter((event) => event.type === 'response.output_text.delta').length, 8);

assert.equal(one(await client.completions.create(old)).choices[0].text, text);
const pieces = await all(await client.completions.create({ ...old, stream: true }));
assert.equal(pieces.map((piece) => piece.choices[0].text).join(''), text);

for (const [input, count] of [['hello', 1], [['hello', 'again'], 2], [[1, 2, 3], 1], [[[1, 2], [3]], 2]]) {
  const vectors = one(await client.embeddings.create({ model: 'text-embedding-3-small', input }));
  assert.deepEqual(vectors.data.map((vector) => vector.embedding.length), Array(count).fill(8));
}

const answers = await Promise.all([
  ...Array.from({ length: 4 }, async () => one(await client.chat.completions.create(chat)).choices[0].message.content),
  ...Array.from({ length: 4 }, async () =>
    spoken(await all(await client.chat.completions.create({ ...chat, stream: true }))),
  ),
]);
assert.deepEqual(answers, Array(8).fill(text));
console.log(JSON.stringify(said));
