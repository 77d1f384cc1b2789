import Stripe from 'stripe';

const ways = (scenario, base, key) => {
  const client = connect(Stripe, base, key);
  const amount = { unreadable: '12.34', budget: 1000 }[scenario] ?? 100;
  return { plain: () => client.charges.create({ amount, currency: 'usd', source: 'tok_visa' }) };
};
await main({ ways });
