import stripe


def ways(scenario, url, key):
    client = stripe.StripeClient(key, base_addresses={"api": url})
    amount = {"unreadable": "12.34", "budget": 1000}.get(scenario, 100)
    card = {"amount": amount, "currency": "usd", "source": "tok_visa"}

    def module():
        # The older way to call it; this one tries again by itself, twice, unless it is told not to.
        stripe.api_base, stripe.api_key = url, key
        stripe.Charge.create(**card)

    return {
        "module": module,
        "sync": lambda: client.v1.charges.create(card),
        "async": lambda: asyncio.run(client.v1.charges.create_async(card)),
    }


main(ways, None, lambda error: error.user_message, lambda error: error.http_status)
