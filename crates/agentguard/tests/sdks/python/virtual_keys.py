"""One call with each vendor's own client, which is given a guard token for a key."""
import json
import sys

import anthropic
import openai
import stripe

gate, token = sys.argv[1:]
said = {}
hello = [{"role": "user", "content": "hello"}]

client = openai.OpenAI(base_url=f"{gate}/openai/v1", api_key=token, max_retries=0)
said["openai"] = client.chat.completions.create(model="gpt-4o-mini", messages=hello).model

client = anthropic.Anthropic(base_url=f"{gate}/anthropic", api_key=token, max_retries=0)
said["anthropic"] = client.messages.create(model="claude-sonnet-4-5", max_tokens=16, messages=hello).role

client = stripe.StripeClient(token, base_addresses={"api": f"{gate}/stripe"}, max_network_retries=0)
said["stripe"] = client.v1.charges.create({"amount": 100, "currency": "usd", "source": "tok_visa"}).amount
print(json.dumps(said))
