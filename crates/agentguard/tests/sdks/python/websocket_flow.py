"""Opens a WebSocket through the gate, sends messages of several sizes, and closes in order."""

import json
import sys

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

allowed, refused, token = sys.argv[1:]
headers = {"X-AgentGuard-Token": token}
options = {"proxy": None, "compression": None, "max_size": None, "additional_headers": headers}

with connect(allowed, **options) as socket:
    sizes = []
    for message in ["hello", "", "ä" * 1000, b"\x00" * 70_000, b"\xff" * 3_000_000]:
        socket.send(message)
        assert socket.recv(timeout=30) == message
        sizes.append(len(message))
    assert socket.ping().wait(30)

try:
    connect(refused, **options)
    status, body = 101, ""
except InvalidStatus as error:
    status, body = error.response.status_code, error.response.body.decode()

print(json.dumps({"sizes": sizes, "close_code": socket.close_code, "refused": status, "said": json.loads(body)}))
