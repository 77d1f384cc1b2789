"""What Stripe's own client does all day, one call after the other and eight at once."""
import asyncio
import json
import sys

import stripe

base_url, key = sys.argv[1:]
client = stripe.StripeClient(key, base_addresses={"api": base_url})
said = {"calls": 0, "streams": 0}


def one(answer):
    said["calls"] += 1
    return answer


order = {"order": "7", "note": "50% & more = ü", "a[b]": "c"}
card = {"amount": 1000, "currency": "usd", "source": "tok_visa"}
charge = one(client.v1.charges.create({**card, "metadata": order, "shipping": {"name": "A", "address": {"line1": "B"}}}))
assert (charge.amount, charge.currency, charge.paid) == (1000, "usd", True), charge
assert charge.metadata["order"] == "7" and charge.metadata["note"] == order["note"], charge
assert one(client.v1.charges.retrieve(charge.id)).id == charge.id

intent = one(client.v1.payment_intents.create({"amount": 700, "currency": "usd", "payment_method": "pm_card_visa"}))
assert intent.status == "requires_confirmation", intent
assert one(client.v1.payment_intents.confirm(intent.id)).status == "succeeded"
assert one(client.v1.transfers.create({"amount": 50, "currency": "usd", "destination": "acct_1"})).amount == 50
assert one(client.v1.payouts.create({"amount": 60, "currency": "usd"})).status == "pending"
assert one(client.v1.refunds.create({"charge": charge.id, "amount": 200})).status == "succeeded"

keyed = {"idempotency_key": "order-8"}
first, again = (one(client.v1.charges.create({**card, "amount": 300}, keyed)) for _ in range(2))
assert first.id == again.id, (first, again)


async def at_once():
    return await asyncio.gather(*(client.v1.charges.create_async({**card, "amount": 100}) for _ in range(8)))


assert len({one(charge).id for charge in asyncio.run(at_once())}) == 8

# 11 charges and that of the intent, four to a page.
listed = [c.id for c in client.v1.charges.list({"limit": 4}).auto_paging_iter()]
said["calls"] += 3
assert len(set(listed)) == 11 and charge.id == listed[-1], listed
print(json.dumps(said))
