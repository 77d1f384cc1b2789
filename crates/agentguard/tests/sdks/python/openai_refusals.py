import openai


def ways(scenario, url, key):
    client = openai.OpenAI(base_url=url, api_key=key)
    chat = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}

    async def at_once():
        async with openai.AsyncOpenAI(base_url=url, api_key=key) as client:
            await client.chat.completions.create(**chat)

    return {
        "sync": lambda: client.chat.completions.create(**chat),
        "stream": lambda: client.chat.completions.create(**chat, stream=True),
        "async": lambda: asyncio.run(at_once()),
    }


async def waiting(url, key):
    async with openai.AsyncOpenAI(base_url=url, api_key=key) as client:
        await client.models.list()


main(ways, waiting, str, lambda error: getattr(error, "status_code", None))
