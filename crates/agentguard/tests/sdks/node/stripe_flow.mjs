// What Stripe's own client does all day, one call after the other and eight at once.
import assert from 'node:assert/strict';
import Stripe from 'stripe';

const [base, key] = process.argv.slice(1);
const client = connect(Stripe, base, key);
const said = { calls: 0, streams: 0 };
const one = (answer) => {
  said.calls += 1;
  return answer;
};

const metadata = { order: '7', note: '50% & more = ü', 'a[b]': 'c' };
const card = { amount: 1000, currency: 'usd', source: 'tok_visa' };
const shipping = { name: 'A', address: { line1: 'B' } };
const charge = one(await client.charges.create({ ...card, metadata, shipping }));
assert.deepEqual([charge.amount, charge.currency, charge.paid], [1000, 'usd', true]);
assert.equal(charge.metadata.order, '7');
assert.equal(charge.metadata.note, metadata.note);
assert.equal(one(await client.charges.retrieve(charge.id)).id, charge.id);

const intent = one(
  await client.paymentIntents.create({ amount: 700, currency: 'usd', payment_method: 'pm_card_visa' }),
);
assert.equal(intent.status, 'requires_confirmation');
assert.equal(one(await client.paymentIntents.confirm(intent.id)).status, 'succeeded');
assert.equal(one(await client.transfers.create({ amount: 50, currency: 'usd', destination: 'acct_1' })).amount, 50);
assert.equal(one(await client.payouts.create({ amount: 60, currency: 'usd' })).status, 'pending');
assert.equal(one(await client.refunds.create({ charge: charge.id, amount: 200 })).status, 'succeeded');

const keyed = { idempotencyKey: 'order-8' };
const first = one(await client.charges.create({ ...card, amount: 300 }, keyed));
const again = one(await client.charges.create({ ...card, amount: 300 }, keyed));
assert.equal(first.id, again.id);

const eight = Array.from({ length: 8 }, async () => one(await client.charges.create({ ...card, amount: 100 })).id);
assert.equal(new Set(await Promise.all(eight)).size, 8);

// 11 charges and that of the intent, four to a page.
const listed = [];
for await (const each of client.charges.list({ limit: 4 })) listed.push(each.id);
said.calls += 3;
assert.equal(new Set(listed).size, 11);
assert.equal(listed.at(-1), charge.id);
console.log(JSON.stringify(said));
