"""The official stripe package against the upstream at sys.argv[1]."""
import sys

import stripe

stripe.api_key = "sk_test_testkit"
stripe.api_base = sys.argv[1]
stripe.max_network_retries = 0

charge = stripe.Charge.create(amount=1234, currency="usd", source="tok_visa", metadata={"order": "7"})
assert (charge.object, charge.amount, charge.status, charge.paid) == ("charge", 1234, "succeeded", True), charge
assert charge.metadata["order"] == "7", charge
assert stripe.Charge.retrieve(charge.id).amount == 1234

intent = stripe.PaymentIntent.create(amount=700, currency="usd", payment_method="pm_card_visa")
assert intent.status == "requires_confirmation", intent
assert stripe.PaymentIntent.confirm(intent.id).status == "succeeded"
assert stripe.PaymentIntent.create(amount=1000, currency="jpy", payment_method="pm_card_visa", confirm=True).amount_received == 1000

assert stripe.Transfer.create(amount=50, currency="usd", destination="acct_1").destination == "acct_1"
assert stripe.Payout.create(amount=60, currency="usd").status == "pending"
assert stripe.Refund.create(charge=charge.id, amount=234).status == "succeeded"
assert stripe.Charge.retrieve(charge.id).amount_refunded == 234
assert stripe.Balance.retrieve().available[0].currency in ("usd", "jpy")

try:
    stripe.Charge.create(amount=40200, currency="usd", source="tok_visa")
    raise SystemExit("a declined card was charged")
except stripe.CardError as error:
    assert error.code == "card_declined" and error.http_status == 402, error
try:
    stripe.Charge.retrieve("ch_none")
    raise SystemExit("an unknown charge was found")
except stripe.InvalidRequestError as error:
    assert error.code == "resource_missing" and error.http_status == 404, error
