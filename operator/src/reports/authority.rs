//! Certificates: what is due, and how each is made. No clock, no I/O.
//!
//! The operator's own authorities are in a Secret. A new one is made long before the one before it ends. Until every pod
//! has had time to learn of it, the one before goes on signing; then the new one signs, and the one before stays in the
//! bundle until it expires. So whatever bundle a pod has read, it trusts what the server shows.
//!
//! The server's own certificate is in no Secret: each replica makes one for itself, and keeps its key in memory.

use std::{fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde::{Deserialize, Serialize};

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// How long an authority is trusted.
const AUTHORITY_LASTS: SignedDuration = SignedDuration::from_hours(360 * 24);

/// When the next one is made. Half a year is left to find out that it could not be.
const AUTHORITY_RENEWED_AFTER: SignedDuration = SignedDuration::from_hours(180 * 24);

/// How long a new authority is only trusted, and does not sign yet. The operator writes ConfigMaps within minutes, and the
/// kubelet brings them into pods within minutes; a day leaves time to repair what does not work.
const SPREADS_FOR: SignedDuration = DAY;

/// How long the server's certificate holds.
const SERVER_LASTS: SignedDuration = SignedDuration::from_hours(30 * 24);

/// When the next one is made.
const SERVER_RENEWED_AFTER: SignedDuration = SignedDuration::from_hours(10 * 24);

/// A node's clock may be behind by so much. Validity is counted in whole days, so it is a day at least.
const EARLIER: SignedDuration = SignedDuration::from_hours(48);

/// What went wrong with a certificate. It never carries a key.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("the server's certificate cannot be used")]
    Use(#[from] rustls::Error),
    #[error("the key of the server's certificate cannot be used")]
    Key,
    #[error("the time is beyond what a certificate can say")]
    Time,
}

/// One that signs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Authority {
    /// PEM.
    certificate: String,
    /// PEM. It is written to the Secret and nowhere else.
    key: String,
    made: Timestamp,
    until: Timestamp,
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { made, until, .. } = self;
        formatter.debug_struct("Authority").field("made", made).field("until", until).finish_non_exhaustive()
    }
}

impl Authority {
    fn new(now: Timestamp) -> Result<Self, CertificateError> {
        let until = now.checked_add(AUTHORITY_LASTS).map_err(|_| CertificateError::Time)?;
        let key = KeyPair::generate()?;
        let certificate = authority_params(now, until)?.self_signed(&key)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem(), made: now, until })
    }
}

/// All that are trusted, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Authorities(Vec<Authority>);

impl Authorities {
    /// What the Secret should hold, if that is something else.
    pub(super) fn due(&self, now: Timestamp) -> Result<Option<Self>, CertificateError> {
        // One that is made in the future was made by a clock that was wrong, and no pod trusts it before then.
        let is_usable =
            |authority: &&Authority| now < authority.until && authority.made.duration_since(now) <= DAY;
        let mut usable: Vec<Authority> = self.0.iter().filter(is_usable).cloned().collect();
        usable.sort_by_key(|authority| authority.made);
        let is_fresh = |authority: &Authority| now.duration_since(authority.made) < AUTHORITY_RENEWED_AFTER;
        if !usable.last().is_some_and(is_fresh) {
            usable.push(Authority::new(now)?);
        }
        let due = Self(usable);
        Ok((due != *self).then_some(due))
    }

    /// The one that signs now: the youngest that has spread, or the oldest of those that have not.
    fn signer(&self, now: Timestamp) -> Option<&Authority> {
        let valid = || self.0.iter().filter(|authority| now < authority.until);
        let has_spread = |authority: &&Authority| now.duration_since(authority.made) >= SPREADS_FOR;
        valid().rfind(has_spread).or_else(|| valid().next())
    }

    /// What pods trust.
    pub(super) fn bundle(&self) -> String {
        self.0.iter().map(|authority| authority.certificate.as_str()).collect()
    }
}

/// The server's certificate.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) config: Arc<ServerConfig>,
    /// Certificate of the authority that signed it.
    signer: String,
    made: Timestamp,
}

/// The server's certificate that should be used, if that is another than `current`.
pub(super) fn server_due(
    current: Option<&Server>,
    authorities: &Authorities,
    names: &[String],
    now: Timestamp,
) -> Result<Option<Server>, CertificateError> {
    let Some(signer) = authorities.signer(now) else { return Ok(None) };
    let is_good = |server: &Server| {
        server.signer == signer.certificate
            && (SignedDuration::ZERO..SERVER_RENEWED_AFTER).contains(&now.duration_since(server.made))
    };
    if current.is_some_and(is_good) {
        return Ok(None);
    }
    let issuer = Issuer::new(authority_params(signer.made, signer.until)?, KeyPair::from_pem(&signer.key)?);
    let key = KeyPair::generate()?;
    let until = now.checked_add(SERVER_LASTS).map_err(|_| CertificateError::Time)?;
    let mut params = CertificateParams::new(names)?;
    hold(&mut params, now, until)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.distinguished_name = rcgen::DistinguishedName::new();
    let certificate = params.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|_| CertificateError::Key)?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    Ok(Some(Server { config: Arc::new(config), signer: signer.certificate.clone(), made: now }))
}

/// The same for the certificate and for what it signs.
fn authority_params(made: Timestamp, until: Timestamp) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::new(Vec::new())?;
    hold(&mut params, made, until)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    // Each has a name of its own, so that what is signed names one.
    let name = format!("reports to the ScavengerJob operator, since {made}");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

/// Lets a certificate hold from the day before `from` to the day after `until`.
fn hold(params: &mut CertificateParams, from: Timestamp, until: Timestamp) -> Result<(), CertificateError> {
    let day = |time: Timestamp, by| {
        let moved = time.checked_add(by).map_err(|_| CertificateError::Time)?;
        Ok(moved.to_zoned(TimeZone::UTC).date())
    };
    let date_time = |date: jiff::civil::Date| {
        // Months and days are no more than 31, and never negative.
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let days: Result<_, CertificateError> = day(from, -EARLIER).and_then(|from| Ok((from, day(until, DAY)?)));
    let (from, until) = days?;
    (params.not_before, params.not_after) = (date_time(from), date_time(until));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    fn after(days: i64) -> Timestamp {
        start() + SignedDuration::from_hours(24 * days)
    }

    fn names() -> Vec<String> {
        vec!["localhost".to_owned()]
    }

    #[test]
    fn a_new_authority_is_trusted_before_it_signs_and_an_old_one_after() {
        let first = Authorities::default().due(start()).unwrap().unwrap();
        assert_eq!(first.0.len(), 1);
        // It signs at once: there is no other.
        assert_eq!(first.signer(start()), first.0.first());
        assert_eq!(first.due(after(179)).unwrap(), None);
        let both = first.due(after(180)).unwrap().unwrap();
        assert_eq!((both.0.len(), both.0[0] == first.0[0]), (2, true));
        assert!(both.bundle().contains(&first.bundle()));
        assert_eq!(both.due(after(180)).unwrap(), None, "once is enough");
        assert_eq!(both.signer(after(180)), both.0.first());
        assert_eq!(both.signer(after(181)), both.0.last());
        // The old one is trusted as long as anything that it signed may be shown.
        assert_eq!(both.due(after(359)).unwrap(), None);
        let third = both.due(after(360)).unwrap().unwrap();
        assert_eq!((third.0.len(), third.0[0] == both.0[1]), (2, true));
    }

    #[test]
    fn after_a_long_pause_or_a_wrong_clock_there_is_an_authority_that_can_be_used() {
        let first = Authorities::default().due(start()).unwrap().unwrap();
        let later = first.due(after(1000)).unwrap().unwrap();
        assert_eq!((later.0.len(), later.signer(after(1000)).is_some()), (1, true));
        assert_ne!(later.0[0], first.0[0]);
        // The clock was ahead by years, and is right again.
        let right = later.due(after(1)).unwrap().unwrap();
        assert_eq!((right.0.len(), right.0[0].made), (1, after(1)));
        // An hour backwards is nothing.
        assert_eq!(right.due(after(1) - SignedDuration::from_hours(1)).unwrap(), None);
    }

    #[test]
    fn the_servers_certificate_is_renewed_in_time_and_follows_the_signer() {
        let first = Authorities::default().due(start()).unwrap().unwrap();
        let server = server_due(None, &first, &names(), start()).unwrap().unwrap();
        let due = |authorities: &Authorities, days| {
            server_due(Some(&server), authorities, &names(), after(days)).unwrap().is_some()
        };
        assert!(!due(&first, 0) && !due(&first, 9));
        assert!(due(&first, 10));
        assert!(due(&first, -1), "made by a clock that was ahead");
        let both = first.due(after(180)).unwrap().unwrap();
        let server = server_due(None, &both, &names(), after(175)).unwrap().unwrap();
        let due = |days| server_due(Some(&server), &both, &names(), after(days)).unwrap();
        assert!(due(180).is_none(), "the new authority does not sign yet");
        assert_eq!(due(181).unwrap().signer, both.0[1].certificate);
        assert!(server_due(None, &Authorities::default(), &names(), start()).unwrap().is_none());
    }

    #[test]
    fn the_secret_is_read_as_it_was_written_and_the_log_shows_no_key() {
        let authorities = Authorities::default().due(start()).unwrap().unwrap();
        let text = serde_json::to_string(&authorities).unwrap();
        assert!(text.contains("PRIVATE KEY"));
        assert_eq!(serde_json::from_str::<Authorities>(&text).unwrap(), authorities);
        let server = server_due(None, &authorities, &names(), start()).unwrap().unwrap();
        let logged = format!("{authorities:?} {server:?} {:#?}", authorities.0[0]);
        assert!(logged.contains("2026-01-02"), "{logged}");
        for secret in ["PRIVATE", authorities.0[0].key.lines().nth(1).unwrap()] {
            assert!(!logged.contains(secret), "{logged}");
        }
        assert!(!authorities.bundle().contains("PRIVATE"));
    }
}
