"""What Anthropic's own client does all day, one call after the other and eight at once."""
import asyncio
import json
import sys
import warnings

import anthropic

# pydantic warns of members that do not fit.
warnings.simplefilter("error", UserWarning)
base_url, key = sys.argv[1:]
client = anthropic.Anthropic(base_url=base_url, api_key=key)
talk = [{"role": "user", "content": "hello"}]
ask = {"model": "claude-haiku-4-5", "max_tokens": 64, "messages": talk}
text = " ".join(f"w{n}" for n in range(8))
said = {"calls": 0, "streams": 0}


def typed(answer, stream=False):
    """Every member that the client's own type asks for is there, and is of its type."""
    said["calls"] += 1
    said["streams"] += stream
    for part in answer if stream else [answer]:
        type(part).model_validate(part.model_dump(mode="json", by_alias=True))
    return answer


whole = typed(client.messages.create(**ask, system="be brief"))
assert whole.content[0].text == text and whole.stop_reason == "end_turn", whole
assert typed(client.messages.create(**{**ask, "max_tokens": 2})).stop_reason == "max_tokens"
assert typed(client.messages.count_tokens(model=ask["model"], messages=talk)).input_tokens > 0

events = typed(list(client.messages.create(**ask, stream=True)), stream=True)
assert (events[0].type, events[-1].type) == ("message_start", "message_stop"), events
with client.messages.stream(**ask) as stream:
    assert "".join(stream.text_stream) == text
    final = typed([stream.get_final_message()], stream=True)[0]
assert final.content[0].text == text and final.usage.output_tokens == 8, final


async def at_once():
    async with anthropic.AsyncAnthropic(base_url=base_url, api_key=key) as client:

        async def streamed():
            async with client.messages.stream(**ask) as stream:
                return await stream.get_final_message()

        plain = [client.messages.create(**ask) for _ in range(4)]
        return await asyncio.gather(*plain, *(streamed() for _ in range(4)))


answers = asyncio.run(at_once())
for number, answer in enumerate(answers):
    assert (typed([answer], stream=True)[0] if number >= 4 else typed(answer)).content[0].text == text, answer
print(json.dumps(said))
