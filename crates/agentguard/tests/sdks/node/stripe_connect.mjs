
// Stripe's client takes a host but no path. Its own way to go elsewhere is a `fetch` of one's own.
function connect(Stripe, base, key) {
  const viaGate = (url, init) => fetch(String(url).replace('https://api.stripe.com', base), init);
  return new Stripe(key, { httpClient: Stripe.createFetchHttpClient(viaGate) });
}
