import Anthropic from '@anthropic-ai/sdk';

const ask = { model: 'claude-haiku-4-5', max_tokens: 64, messages: [{ role: 'user', content: 'hello' }] };
const ways = (_scenario, baseURL, apiKey) => {
  const client = new Anthropic({ baseURL, apiKey });
  return {
    plain: () => client.messages.create(ask),
    stream: () => client.messages.stream(ask).finalMessage(),
  };
};
await main({ ways, waiting: async (baseURL, apiKey) => new Anthropic({ baseURL, apiKey }).models.list() });
