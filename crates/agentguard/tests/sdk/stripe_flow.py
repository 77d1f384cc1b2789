"""Charges 10.00 USD again and again with Stripe's own client until something says no."""
import json
import sys

import stripe

client = stripe.StripeClient("sk_test_of_the_agent", base_addresses={"api": sys.argv[1]}, max_network_retries=3)
said = {"paid": 0}
for _ in range(5):
    try:
        charge = client.v1.charges.create({"amount": 1000, "currency": "usd", "source": "tok_visa"})
        assert charge.amount == 1000 and charge.currency == "usd", charge
        said["paid"] += 1
    except stripe.StripeError as error:
        said["refused_status"] = error.http_status
        said["refused_message"] = error.user_message or str(error)
        break
print(json.dumps(said))
