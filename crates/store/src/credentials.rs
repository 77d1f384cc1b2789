//! Upstream credentials at rest: sealed with a key that lies outside the database, each to the alias
//! and the origin that it was stored for. Whoever has only the database has none of them, and a row
//! that was changed, moved to another alias or led to another origin does not open.
//!
//! Never here: where a credential goes.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agentguard_core::service::Service;
use agentguard_core::{Credential, Secret};
use agentguard_gate::ports::RegistryError;
use agentguard_gate::{CredentialSource, CredentialState, Unusable};
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use rusqlite::Connection;

use crate::chain::{hex, unhex};
use crate::error::StoreError;
use crate::folder::{make_private, sync_dir};
use crate::keys::{KEYS_DIR, readable_by_others, write_new};
use crate::policy::store_error;

const KEY_FILE: &str = "credentials.key";

/// Sets these seals apart from any other use of the key.
const CONTEXT: &[u8] = b"agentguard credential 1\n";

const NONCE_BYTES: usize = 24;

/// Seals credentials and opens them. Reads the key when it is needed: policy changes rarely, and a
/// key file that was put back is found without a restart.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    keys_dir: PathBuf,
}

/// Why there is no key.
enum NoKey {
    Missing,
    Failed(String),
}

impl Credentials {
    pub(crate) fn of(data_dir: &Path) -> Self {
        Self { keys_dir: data_dir.join(KEYS_DIR) }
    }

    /// Says so if others can read the key.
    pub(crate) fn exposed(&self) -> Option<String> {
        readable_by_others(&self.file(), "the credentials' key")
    }

    /// The stored credentials of these services, opened. What does not open is unusable: it is not
    /// taken for none, or calls would go out without it.
    pub(crate) fn load(
        &self,
        db: &Connection,
        services: &[Service],
    ) -> Result<HashMap<String, CredentialState>, RegistryError> {
        let mut sealed = sealed(db)?;
        if sealed.is_empty() {
            return Ok(HashMap::new());
        }
        let key = self.key().ok();
        let mut states = HashMap::new();
        for service in services {
            let Some(blob) = sealed.remove(&service.alias) else { continue };
            let opened = key.as_ref().and_then(|key| open(key, service, &blob));
            let state = opened.map_or(CredentialState::Unusable(Unusable::Sealed), |credential| {
                CredentialState::Held { credential, source: CredentialSource::Store }
            });
            states.insert(service.alias.clone(), state);
        }
        Ok(states)
    }

    /// Stores a credential for where the service leads now.
    pub(crate) fn put(
        &self,
        db: &Connection,
        service: &Service,
        credential: &Credential,
    ) -> Result<(), RegistryError> {
        let failed = |error: StoreError| RegistryError::Store(Box::new(error));
        let key = match self.key() {
            Ok(key) => key,
            Err(NoKey::Missing) => self.make_key().map_err(failed)?,
            // Not written over: it may be all that is left of the right one.
            Err(NoKey::Failed(why)) => return Err(RegistryError::Invalid(why)),
        };
        let blob = seal(&key, service, credential).map_err(failed)?;
        db.execute(
            "INSERT INTO credentials (alias, sealed) VALUES (?1, ?2) \
             ON CONFLICT (alias) DO UPDATE SET sealed = excluded.sealed",
            (&service.alias, blob),
        )
        .map(|_| ())
        .map_err(store_error)
    }

    fn file(&self) -> PathBuf {
        self.keys_dir.join(KEY_FILE)
    }

    fn key(&self) -> Result<Secret<[u8; 32]>, NoKey> {
        let file = self.file();
        let text = match fs::read_to_string(&file) {
            Ok(text) => Secret::new(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NoKey::Missing),
            Err(error) => {
                let why = format!("reading the credentials' key `{}`: {error}", file.display());
                return Err(NoKey::Failed(why));
            }
        };
        unhex(text.expose().trim()).map(Secret::new).ok_or_else(|| {
            NoKey::Failed(format!(
                "the credentials' key `{}` does not hold 64 hexadecimal digits: put the right file \
                 back, or move it away and store every credential again",
                file.display()
            ))
        })
    }

    fn make_key(&self) -> Result<Secret<[u8; 32]>, StoreError> {
        make_private(&self.keys_dir)?;
        let key = Secret::new(random::<32>()?);
        let text = Secret::new(format!("{}\n", hex(key.expose())));
        let file = self.file();
        write_new(&file, text.expose())
            .and_then(|()| sync_dir(&self.keys_dir))
            .map_err(StoreError::io("writing the credentials' key", &file))?;
        Ok(key)
    }
}

/// Whether a credential is stored for an alias, whether it opens or not.
pub(crate) fn is_stored(db: &Connection, alias: &str) -> Result<bool, RegistryError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM credentials WHERE alias = ?1)";
    db.query_row(sql, [alias], |row| row.get(0)).map_err(store_error)
}

/// Takes the credential of an alias away.
pub(crate) fn remove(db: &Connection, alias: &str) -> Result<(), RegistryError> {
    let sql = "DELETE FROM credentials WHERE alias = ?1";
    db.execute(sql, [alias]).map(|_| ()).map_err(store_error)
}

/// The aliases with a stored credential.
pub(crate) fn aliases(db: &Connection) -> Result<Vec<String>, RegistryError> {
    let mut statement =
        db.prepare("SELECT alias FROM credentials ORDER BY alias").map_err(store_error)?;
    let rows = statement.query_map([], |row| row.get(0)).map_err(store_error)?;
    rows.collect::<Result<_, _>>().map_err(store_error)
}

fn sealed(db: &Connection) -> Result<HashMap<String, Vec<u8>>, RegistryError> {
    let mut statement =
        db.prepare_cached("SELECT alias, sealed FROM credentials").map_err(store_error)?;
    let rows =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(store_error)?;
    rows.collect::<Result<_, _>>().map_err(store_error)
}

/// The nonce, and what it sealed. A nonce of 24 random bytes never comes twice.
fn seal(
    key: &Secret<[u8; 32]>,
    service: &Service,
    credential: &Credential,
) -> Result<Vec<u8>, StoreError> {
    let nonce = random::<NONCE_BYTES>()?;
    let bound = bound_to(service);
    let payload = Payload { msg: credential.expose().as_bytes(), aad: &bound };
    let sealed = XChaCha20Poly1305::new(key.expose().into())
        .encrypt(&XNonce::from(nonce), payload)
        .map_err(|_| StoreError::Seal)?;
    Ok([nonce.as_slice(), &sealed].concat())
}

fn open(key: &Secret<[u8; 32]>, service: &Service, blob: &[u8]) -> Option<Credential> {
    let (nonce, sealed) = blob.split_first_chunk::<NONCE_BYTES>()?;
    let payload = Payload { msg: sealed, aad: &bound_to(service) };
    let cipher = XChaCha20Poly1305::new(key.expose().into());
    let text = cipher.decrypt(&XNonce::from(*nonce), payload).ok()?;
    Credential::parse(Secret::new(String::from_utf8(text).ok()?)).ok()
}

/// What a seal is good for. The length keeps one pair from reading as another.
fn bound_to(service: &Service) -> Vec<u8> {
    let alias = service.alias.as_bytes();
    let length = u64::try_from(alias.len()).unwrap_or(u64::MAX).to_be_bytes();
    [CONTEXT, &length, alias, service.origin().as_bytes()].concat()
}

fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(StoreError::NoRandomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn service(alias: &str, base_url: &str) -> Service {
        let mut service = agentguard_gate::defaults::built_in_services().remove(0);
        service.alias = alias.to_owned();
        service.base_url = base_url.parse().unwrap();
        service
    }

    fn sealed_for(service: &Service) -> Vec<u8> {
        let text = Secret::new("sk-hunter2".to_owned());
        seal(&Secret::new(KEY), service, &Credential::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn a_seal_opens_only_for_its_key_alias_and_origin() {
        let of = service("openai", "https://api.openai.com/v1");
        let blob = sealed_for(&of);
        let check = |key: [u8; 32], alias: &str, base_url: &str, opens: bool| {
            let opened = open(&Secret::new(key), &service(alias, base_url), &blob);
            let text = opened.as_ref().map(Credential::expose);
            assert_eq!(text, opens.then_some("sk-hunter2"), "{alias} {base_url}");
        };
        check(KEY, "openai", "https://api.openai.com/v1", true);
        // Another path of the same server is the same server.
        check(KEY, "openai", "https://API.openai.com:443/", true);
        check(KEY, "openai", "http://api.openai.com/v1", false);
        check(KEY, "openai", "https://api.openai.com:444/v1", false);
        check(KEY, "openai", "https://evil.example/v1", false);
        check(KEY, "openai2", "https://api.openai.com/v1", false);
        check([8; 32], "openai", "https://api.openai.com/v1", false);
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let of = service("openai", "https://api.openai.com");
        let blob = sealed_for(&of);
        for place in 0..blob.len() {
            let mut changed = blob.clone();
            changed[place] ^= 1;
            assert!(open(&Secret::new(KEY), &of, &changed).is_none(), "{place}");
            assert!(open(&Secret::new(KEY), &of, &blob[..place]).is_none(), "{place}");
        }
        assert_ne!(sealed_for(&of), blob, "each seal has its own nonce");
    }
}
