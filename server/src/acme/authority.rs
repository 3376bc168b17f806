//! The account at a CA: created once, with a key that is stored before the CA sees it.

use super::folder::{AcmeFolder, StoredAccount};
use super::http::{AcmeClient, again};
use super::{AcmeFailure, own};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use instant_acme::{Account, ExternalAccountKey, Key, NewAccount};
use larder_config::tls::AcmeAuthority;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::rc::Rc;

/// An open account.
pub(super) struct AcmeAccount {
    /// The directory of its CA.
    pub directory: String,
    /// The library's account.
    pub account: Account,
}

/// Opens the account at a CA, or creates it.
///
/// # Errors
/// Why there is none.
pub(super) async fn open(
    folder: &AcmeFolder,
    authority: &AcmeAuthority,
    email: Option<&str>,
    client: &Rc<AcmeClient>,
) -> Result<AcmeAccount, AcmeFailure> {
    let directory = authority.directory.url();
    let builder = || Account::builder_with_http(client.open());
    let mut stored = match folder.account(&directory).map_err(own)? {
        Some(stored) => stored,
        None => new_key(folder, &directory)?,
    };
    let key = key_of(&stored)?;
    let account = match (&stored.url, &authority.binding) {
        (Some(url), _) => builder().from_parts(url.clone(), key, directory.clone()).await?,
        (None, None) => {
            let key = || -> Result<_, AcmeFailure> {
                let der = key_of(&stored)?;
                let key = Key::from_pkcs8_der(der.clone_key())?;
                Ok((key, PrivateKeyDer::Pkcs8(der)))
            };
            let key = std::cell::RefCell::new(key);
            again(async || {
                let key = (key.borrow_mut())().map_err(|it| instant_acme::Error::Other(it.why.into()))?;
                builder().create_from_key(key, directory.clone()).await
            })
            .await?
            .0
        }
        (None, Some(binding)) => {
            let contact = email.map(|it| format!("mailto:{it}"));
            let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
            let new =
                NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
            let external = ExternalAccountKey::new(binding.id.clone(), &binding.key().unwrap_or_default());
            let (account, credentials) =
                again(async || builder().create(&new, directory.clone(), Some(&external)).await).await?;
            // The library makes the key of such an account itself.
            stored.key = URL_SAFE_NO_PAD.encode(credentials.private_key().secret_pkcs8_der());
            stored.email = email.map(str::to_owned);
            account
        }
    };
    if stored.url.as_deref() != Some(account.id()) {
        stored.url = Some(account.id().to_owned());
        folder.keep_account(&stored).map_err(own)?;
    }
    if stored.email.as_deref() != email {
        let contact = email.map(|it| format!("mailto:{it}"));
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        again(async || account.update_contacts(&contact).await).await?;
        stored.email = email.map(str::to_owned);
        folder.keep_account(&stored).map_err(own)?;
    }
    Ok(AcmeAccount { directory, account })
}

/// Removes the URL of an account that its CA no longer has: the next attempt registers the same key again.
pub(super) fn forget(folder: &AcmeFolder, directory: &str) -> Result<(), String> {
    let Some(stored) = folder.account(directory)? else { return Ok(()) };
    folder.keep_account(&StoredAccount { url: None, email: None, ..stored })
}

fn new_key(folder: &AcmeFolder, directory: &str) -> Result<StoredAccount, AcmeFailure> {
    let (_, key) = Key::generate_pkcs8()?;
    let key = URL_SAFE_NO_PAD.encode(key.secret_pkcs8_der());
    let stored = StoredAccount { directory: directory.to_owned(), key, url: None, email: None };
    folder.keep_account(&stored).map_err(own)?;
    Ok(stored)
}

fn key_of(stored: &StoredAccount) -> Result<PrivatePkcs8KeyDer<'static>, AcmeFailure> {
    let key = URL_SAFE_NO_PAD.decode(&stored.key);
    let key = key.map_err(|_| own("the stored account key is damaged".to_owned()));
    Ok(PrivatePkcs8KeyDer::from(key?))
}
