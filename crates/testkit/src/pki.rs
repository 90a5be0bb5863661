//! A certificate authority for one test.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
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
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("valid names");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority can sign");
        Leaf { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Default for Pki {
    fn default() -> Self {
        Self::new()
    }
}
