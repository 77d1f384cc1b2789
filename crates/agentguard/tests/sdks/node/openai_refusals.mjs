import OpenAI from 'openai';

const chat = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hello' }] };
const ways = (_scenario, baseURL, apiKey) => {
  const client = new OpenAI({ baseURL, apiKey });
  return {
    plain: () => client.chat.completions.create(chat),
    stream: () => client.chat.completions.create({ ...chat, stream: true }),
  };
};
await main({ ways, waiting: async (baseURL, apiKey) => new OpenAI({ baseURL, apiKey }).models.list() });
