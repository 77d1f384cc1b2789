//! The table of codes in `docs/codes.md` is made from the wire table, and must not fall behind it.
#![expect(clippy::unwrap_used, reason = "a missing file should stop the test loudly")]

use std::fmt::Write as _;

use agentguard_core::Reason;
use agentguard_core::wire::{Retry, row};

#[test]
fn the_table_of_codes_is_the_wire_table() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/codes.md");
    let wanted = markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/codes.md is behind; run `UPDATE_DOCS=1 cargo test -p agentguard-core --test docs`"
    );
}

fn markdown() -> String {
    let mut text = String::from(
        "# Refusals: codes and what changes them\n\n\
         Made from `core::wire`, the one table from a reason to what each protocol says. Every refusal \
         carries its code, one sentence, the rule that made it and what would change it. `retry` says \
         whether waiting helps; where it does not, or where it takes longer than two minutes, the \
         answer carries `x-should-retry: false` and `stripe-should-retry: false`, which the vendors' \
         own clients obey.\n\n\
         | code | HTTP | JSON-RPC | pipe | retry | what it says | what would change it |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for reason in Reason::ALL {
        let row = row(reason);
        let retry = match row.retry {
            Retry::Never => "no",
            Retry::Later => "later",
        };
        writeln!(
            text,
            "| `{}` | {} | {} | `{}` | {retry} | {} | {} |",
            row.code, row.status, row.jsonrpc, row.pipe, row.text, row.remedy
        )
        .unwrap();
    }
    text
}
