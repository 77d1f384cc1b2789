//! `amount` and `currency` in form-encoded pairs, of a body or a query.
//!
//! Never here: what the two mean.

use agentguard_core::action::Unreadable;

/// What the pairs said. Each at most once: with two, the upstream may take the other one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pairs {
    pub(super) amount: Option<String>,
    pub(super) currency: Option<String>,
}

impl Pairs {
    /// Takes the pairs of one text, beside those taken before.
    pub(super) fn take(&mut self, text: &[u8]) -> Result<(), Unreadable> {
        // Older servers part pairs at `;` too: what hides behind one must be seen.
        for piece in text.split(|byte| *byte == b'&') {
            let mut parts = piece.split(|byte| *byte == b';');
            self.take_pair(parts.next().unwrap_or_default())?;
            for hidden in parts {
                let mut seen = Self::default();
                seen.take_pair(hidden)?;
                if seen != Self::default() {
                    return Err(Unreadable::NotAnAmount);
                }
            }
        }
        Ok(())
    }

    fn take_pair(&mut self, pair: &[u8]) -> Result<(), Unreadable> {
        let Some((key, value)) = form_urlencoded::parse(pair).next() else { return Ok(()) };
        let slot = match base_name(&key) {
            name if name.eq_ignore_ascii_case("amount") => &mut self.amount,
            name if name.eq_ignore_ascii_case("currency") => &mut self.currency,
            _ => return Ok(()),
        };
        // `amount[]`, `[amount]` and `Amount` are `amount` to some servers and nothing to others.
        let plain = key == "amount" || key == "currency";
        if !plain || slot.replace(value.into_owned()).is_some() {
            return Err(Unreadable::NotAnAmount);
        }
        Ok(())
    }
}

/// The one value of a field in these texts, if there is one. A name that some servers would take for
/// this one, or this one twice, is no answer.
pub(super) fn field(texts: &[&[u8]], name: &str) -> Result<Option<String>, Unreadable> {
    let mut found = None;
    for text in texts {
        for piece in text.split(|byte| *byte == b'&') {
            // Older servers part pairs at `;` too.
            for (place, pair) in piece.split(|byte| *byte == b';').enumerate() {
                let Some((key, value)) = form_urlencoded::parse(pair).next() else { continue };
                if !is_alike(&key, name) {
                    continue;
                }
                let plain = key == name && place == 0;
                if !plain || found.replace(value.into_owned()).is_some() {
                    return Err(Unreadable::NotAnAmount);
                }
            }
        }
    }
    Ok(found)
}

/// Whether some server could take one name for the other.
fn is_alike(key: &str, name: &str) -> bool {
    if name.contains(['[', ']']) {
        return key.trim().eq_ignore_ascii_case(name);
    }
    base_name(key).eq_ignore_ascii_case(name)
}

/// The name before any brackets, as nested parameters are read.
fn base_name(key: &str) -> &str {
    let key = key.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    let key = key.trim_start_matches(['[', ']']);
    key.split(['[', ']']).next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[&str], expected: Result<(Option<&str>, Option<&str>), Unreadable>) {
        let mut pairs = Pairs::default();
        let taken = texts.iter().try_for_each(|text| pairs.take(text.as_bytes()));
        let found = taken.map(|()| (pairs.amount.as_deref(), pairs.currency.as_deref()));
        assert_eq!(found, expected, "{texts:?}");
    }

    #[test]
    fn one_amount_and_one_currency_are_found() {
        check(&["amount=100&currency=usd"], Ok((Some("100"), Some("usd"))));
        check(&["currency=usd", "amount=100"], Ok((Some("100"), Some("usd"))));
        check(&["%61mount=1%30&x=y"], Ok((Some("10"), None)));
        check(&[""], Ok((None, None)));
        check(&["metadata[amount]=5&payment_intent_data[amount]=6"], Ok((None, None)));
        check(&["description=a;b&amount=1"], Ok((Some("1"), None)));
        check(&["amounts=1&my_amount=2"], Ok((None, None)));
    }

    #[test]
    fn an_amount_that_could_be_read_in_two_ways_is_none() {
        for texts in [
            &["amount=1&amount=2"][..],
            &["amount=1&%61mount=1"],
            &["amount=1", "amount=1"],
            &["amount=1&currency=usd&currency=jpy"],
            &["amount=1&amount[]=2"],
            &["[amount]=2"],
            &["Amount=2"],
            &["+amount=2"],
            &["x=1;amount=2"],
            &["amount=1&x=1;currency=usd"],
            &["amount[usd]=2"],
        ] {
            check(texts, Err(Unreadable::NotAnAmount));
        }
    }
}
