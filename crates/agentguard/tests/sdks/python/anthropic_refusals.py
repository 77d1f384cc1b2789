import anthropic


def ways(scenario, url, key):
    client = anthropic.Anthropic(base_url=url, api_key=key)
    ask = {"model": "claude-haiku-4-5", "max_tokens": 64, "messages": [{"role": "user", "content": "hello"}]}

    def streamed():
        with client.messages.stream(**ask) as stream:
            stream.get_final_message()

    async def at_once():
        async with anthropic.AsyncAnthropic(base_url=url, api_key=key) as client:
            await client.messages.create(**ask)

    return {
        "sync": lambda: client.messages.create(**ask),
        "stream": streamed,
        "async": lambda: asyncio.run(at_once()),
    }


async def waiting(url, key):
    async with anthropic.AsyncAnthropic(base_url=url, api_key=key) as client:
        await client.models.list()


main(ways, waiting, str, lambda error: getattr(error, "status_code", None))
