//! What the operator may have meant.

use super::describe;
use super::key::{Key, Step};
use super::limits::NAME_BYTES_MAX;

/// The nearest of these words, if one is near enough to be a slip of the finger.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The comparison takes the product of both lengths, and a key can be a megabyte long.
    if word.len() > NAME_BYTES_MAX {
        return None;
    }
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&word, &name.to_lowercase()), name))
        .filter(|(distance, name)| {
            let longer = word.chars().count().max(name.chars().count());
            // A third of the letters, rounded up: `bnd` is `bind`, `prxy` is `proxy`.
            *distance <= longer.div_ceil(3)
        })
        .min()
        .map(|(_, name)| name)
}

/// For a key that does not exist: its neighbour, the place where it does exist, or what may stand
/// here.
pub(super) fn for_unknown_key(key: &Key, known: &[&str]) -> String {
    let Some((Step::Name(name), parents)) = key.steps().split_last() else {
        return "see the reference of all keys".into();
    };
    let section = Key::from_steps(parents.to_vec());
    if let Some(near) = nearest(name, known.iter().copied()) {
        return format!("did you mean `{}`?", section.entry(near));
    }
    let elsewhere: Vec<String> = describe::keys()
        .into_iter()
        .filter(|described| described.name() == name)
        .map(|described| format!("`{}`", described.path))
        .collect();
    if !elsewhere.is_empty() {
        return format!("did you mean {}?", elsewhere.join(" or "));
    }
    format!("known here: {}", known.join(", "))
}

/// The words that a value may be.
pub(super) fn one_of(word: &str, known: &[&str]) -> String {
    let words: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let words = words.join(", ");
    match nearest(word, known.iter().copied()) {
        Some(near) if !word.is_empty() => format!("one of {words}; did you mean `{near}`?"),
        Some(_) | None => format!("one of {words}"),
    }
}
