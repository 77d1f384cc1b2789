"""Calls that must be refused, one way after the other. argv: {scenario: {url, key}} and {url, key} or null.

Appended: a client's `ways(scenario, url, key)`, each a function that makes one call.
"""
import asyncio
import json
import sys

HUNG_AFTER_SEC = 4


def main(ways, waiting, message, status):
    places, waits_at = (json.loads(text) for text in sys.argv[1:])
    said, waited = {}, None
    for scenario, place in places.items():
        for way, call in ways(scenario, **place).items():
            try:
                call()
            except Exception as error:
                heard = {"class": type(error).__name__, "status": status(error), "message": message(error)}
            else:
                heard = {"class": "none: it went through"}
            said.setdefault(scenario, {})[way] = heard
    if waits_at is not None:
        # The client sleeps as it was told: its first hasty attempt would come within a second.
        try:
            asyncio.run(asyncio.wait_for(waiting(**waits_at), HUNG_AFTER_SEC))
            waited = "it went through"
        except asyncio.TimeoutError:
            waited = "it waits"
    print(json.dumps({"heard": said, "waited": waited}))


