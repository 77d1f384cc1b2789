
// Calls that must be refused, one way after the other. argv: {scenario: {url, key}} and {url, key} or null.
async function main({ ways, waiting }) {
  const hungAfterMs = 4000;
  const [places, waitsAt] = process.argv.slice(1).map((text) => JSON.parse(text));
  const said = {};
  let waited = null;
  for (const [scenario, { url, key }] of Object.entries(places)) {
    for (const [way, call] of Object.entries(ways(scenario, url, key))) {
      let heard = { class: 'none: it went through' };
      try {
        await call();
      } catch (error) {
        heard = { class: error.constructor.name, status: error.status ?? error.statusCode, message: error.message };
      }
      said[scenario] = { ...said[scenario], [way]: heard };
    }
  }
  if (waitsAt !== null) {
    // The client sleeps as it was told: its first hasty attempt would come within a second.
    const waits = new Promise((resolve) => setTimeout(resolve, hungAfterMs, 'it waits'));
    const call = waiting(waitsAt.url, waitsAt.key);
    waited = await Promise.race([waits, call.then(() => 'it went through', (error) => error.message)]);
  }
  console.log(JSON.stringify({ heard: said, waited }));
  // A client that sleeps would keep the program alive.
  process.exit(0);
}
