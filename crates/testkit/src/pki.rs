//! A certificate authority for one test.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// A certificate authority for one test.
#[derive(Debug)]
pub struct Pki {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct Leaf {
    pub certificate: String,
    pub key: String,
}

impl Pki {
    /// A new authority, trusted by nobody yet.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(vec!["test-ca".to_owned()]).expect("a valid name");
        // Issuer and subject must differ, or OpenSSL takes what is signed for self-signed.
        params.distinguished_name.push(DnType::CommonName, "test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("there is randomness");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("the parameters are valid") }
    }

    /// The authority's own certificate, in PEM.
    pub fn ca(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for these names, for a server and a client alike.
    pub fn issue(&self, names: &[&str]) -> Leaf {
        self.sign(&params(names))
    }

    /// The same, but its time is over.
    pub fn issue_expired(&self, names: &[&str]) -> Leaf {
        let mut params = params(names);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Leaf {
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority can sign");
        Leaf { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("valid names");
    params.distinguished_name.push(DnType::CommonName, "test");
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

impl Default for Pki {
    fn default() -> Self {
        Self::new()
    }
}
