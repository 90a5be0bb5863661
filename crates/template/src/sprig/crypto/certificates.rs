//! Certificates: authorities, what they sign, and what signs itself.
//!
//! Follows sprig 3.3.0, `crypto.go` (`genCA` to `genSignedCertWithKey`, `buildCustomCert`), and Go 1.26, `crypto/x509/x509.go`
//! (`CreateCertificate`).

use std::any::Any;
use std::net::IpAddr;
use std::rc::Rc;

use ferroplane_golang::base64;
use ferroplane_golang::time::calendar;
use num_bigint::BigUint;
use sha2::{Digest as _, Sha256};

use super::super::arguments::{characters, int, text};
use super::der::{self, Reader};
use super::keys::PrivateKey;
use super::pem;
use crate::{Context, Failure, Object, Type, Value, print};

pub(super) const CERTIFICATE: Type = Type::Struct("sprig.certificate");

/// The bits of keys that are made for certificates.
const BITS: u64 = 2048;
const DAY: i64 = 86_400;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_KEY: &[u8] = &[0x55, 0x1d, 0x0e];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const AUTHORITY_KEY: &[u8] = &[0x55, 0x1d, 0x23];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// Servers and clients.
const USAGES: [&[u8]; 2] =
    [&[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01], &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02]];

/// What the functions give: a certificate and its key, as text.
#[derive(Debug, PartialEq, Eq)]
struct Certificate {
    cert: String,
    key: String,
}

impl Object for Certificate {
    fn type_of(&self) -> Type {
        CERTIFICATE
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(Value::text(self.cert.as_str())),
            "Key" => Some(Value::text(self.key.as_str())),
            _ => None,
        }
    }

    fn fields(&self) -> &'static [&'static str] {
        &["Cert", "Key"]
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        Some(other.as_any().downcast_ref::<Self>() == Some(self))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `genCA` and `genCAWithKey`.
pub(super) fn authority(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let key = own_key(ctx, args.get(2))?;
    let names = Names { common: text(args, 0), addresses: Vec::new(), hosts: Vec::new() };
    let template = Template::new(ctx, &names, int(args, 1), true)?;
    template.signed_by(ctx, &key, &Signer::itself(&template, &key))
}

/// `genSelfSignedCert` and `genSelfSignedCertWithKey`.
pub(super) fn self_signed(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let names = Names::read(ctx, args)?;
    let key = own_key(ctx, args.get(4))?;
    let template = Template::new(ctx, &names, int(args, 3), false)?;
    template.signed_by(ctx, &key, &Signer::itself(&template, &key))
}

/// `genSignedCert` and `genSignedCertWithKey`.
pub(super) fn signed(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let authority: Option<&Certificate> =
        if let Some(Value::Object(object)) = args.get(4) { object.as_any().downcast_ref() } else { None };
    let Some(authority) = authority else { return Err(Failure::new("unable to decode certificate")) };
    let (_, bytes) =
        pem::decode(&authority.cert).ok_or_else(|| Failure::new("unable to decode certificate"))?;
    let parent = Parent::read(&bytes).ok_or_else(|| malformed("decodedSignerCert.Bytes"))?;
    let signing = PrivateKey::parse(&authority.key)
        .map_err(|problem| Failure::new(format!("error parsing private key: {problem}")))?;
    let names = Names::read(ctx, args)?;
    let template = Template::new(ctx, &names, int(args, 3), false)?;
    if signing.public_info() != parent.public_info {
        let problem = "x509: provided PrivateKey doesn't match parent's PublicKey";
        return Err(Failure::new(format!("error creating certificate: {problem}")));
    }
    let key = own_key(ctx, args.get(5))?;
    // What signs itself names no authority.
    let authority_key = parent.key_identifier.filter(|_| parent.subject != template.subject);
    let issuer = parent.subject.to_vec();
    template.signed_by(
        ctx,
        &key,
        &Signer { key: &signing, issuer, authority_key: authority_key.map(<[u8]>::to_vec) },
    )
}

/// `buildCustomCert`: a certificate and a key that exist, if they can be read.
pub(super) fn custom(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    ctx.charge(text(args, 0).len().saturating_add(text(args, 1).len()).saturating_mul(2))?;
    let decoded = |at: usize, what: &str| {
        let bytes = base64::decode(text(args, at))
            .map_err(|_| Failure::new(format!("unable to decode base64 {what}")))?;
        Ok::<_, Failure>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (cert, key) = (decoded(0, "certificate")?, decoded(1, "private key")?);
    let (_, bytes) = pem::decode(&cert).ok_or_else(|| Failure::new("unable to decode certificate"))?;
    Parent::read(&bytes).ok_or_else(|| malformed("decodedCert.Bytes"))?;
    PrivateKey::parse(&key)
        .map_err(|problem| Failure::new(format!("error parsing private key: {problem}")))?;
    Ok(Value::Object(Rc::new(Certificate { cert, key })))
}

fn malformed(what: &str) -> Failure {
    Failure::new(format!("error parsing certificate: {what}: x509: malformed certificate"))
}

/// The key that was brought along, or a new one.
fn own_key(ctx: &mut Context<'_>, given: Option<&Value>) -> Result<PrivateKey, Failure> {
    let Some(Value::String(text)) = given else { return PrivateKey::rsa(ctx, BITS) };
    PrivateKey::parse(&text.to_str())
        .map_err(|problem| Failure::new(format!("parsing private key: {problem}")))
}

/// Whom a certificate is about.
struct Names<'a> {
    common: &'a [u8],
    addresses: Vec<IpAddr>,
    hosts: Vec<Vec<u8>>,
}

impl<'a> Names<'a> {
    /// The first three arguments: a name, addresses, names of hosts.
    fn read(ctx: &mut Context<'_>, args: &'a [Value]) -> Result<Self, Failure> {
        let items = |at: usize| if let Some(Value::List(list)) = args.get(at) { &list[..] } else { &[] };
        let (mut addresses, mut hosts) = (Vec::new(), Vec::new());
        for item in items(1) {
            let Value::String(address) = item else { return Err(not_text(ctx, "error parsing ip", item)?) };
            let shown = address.to_str();
            addresses.push(shown.parse().map_err(|_| Failure::new(format!("error parsing ip: {shown}")))?);
        }
        for item in items(2) {
            let Value::String(host) = item else {
                return Err(not_text(ctx, "error processing alternate dns name", item)?);
            };
            hosts.push(host.to_vec());
        }
        Ok(Self { common: text(args, 0), addresses, hosts })
    }
}

fn not_text(ctx: &mut Context<'_>, operation: &str, value: &Value) -> Result<Failure, Failure> {
    let shown = print::sprint(ctx, std::slice::from_ref(value))?;
    Ok(Failure::new(format!("{operation}: {} is not a string", shown.to_str())))
}

/// A certificate that is not signed yet.
struct Template {
    serial: BigUint,
    subject: Vec<u8>,
    validity: Vec<u8>,
    is_authority: bool,
    alternative_names: Option<Vec<u8>>,
}

impl Template {
    fn new(ctx: &mut Context<'_>, names: &Names<'_>, days: i64, is_authority: bool) -> Result<Self, Failure> {
        let mut serial = [0; 16];
        ctx.random(&mut serial)?;
        let now = ctx.now()?.seconds;
        // Go counts nanoseconds, which wrap around after 292 years.
        let valid = days.wrapping_mul(DAY).wrapping_mul(1_000_000_000).div_euclid(1_000_000_000);
        let [from, to] = [now, now.saturating_add(valid)].map(time);
        let validity = from.zip(to).map(|(from, to)| der::sequence(&[&from, &to])).ok_or_else(|| {
            Failure::new(
                "error creating certificate: asn1: structure error: cannot represent time as GeneralizedTime",
            )
        })?;
        // A serial number of zero is none.
        let serial = BigUint::from_bytes_be(&serial).max(BigUint::from(1_u32));
        Ok(Self {
            serial,
            subject: name(names.common),
            validity,
            is_authority,
            alternative_names: alternatives(names),
        })
    }

    fn signed_by(
        &self,
        ctx: &mut Context<'_>,
        key: &PrivateKey,
        signer: &Signer<'_>,
    ) -> Result<Value, Failure> {
        ctx.step(signer.key.steps())?;
        let version = der::write(der::field(0), &[der::INTEGER, 1, 2]);
        let algorithm = signer.key.algorithm();
        let extensions = der::write(der::field(3), &der::write(der::SEQUENCE, &self.extensions(key, signer)));
        let unsigned = der::sequence(&[
            &version,
            &der::integer(&self.serial),
            &algorithm,
            &signer.issuer,
            &self.validity,
            &self.subject,
            &key.public_info(),
            &extensions,
        ]);
        let signature = der::bits(&signer.key.sign(&unsigned));
        let cert = pem::encode("CERTIFICATE", &der::sequence(&[&unsigned, &algorithm, &signature]));
        Ok(Value::Object(Rc::new(Certificate { cert, key: key.to_pem() })))
    }

    fn extensions(&self, key: &PrivateKey, signer: &Signer<'_>) -> Vec<u8> {
        // Digital signatures and encipherment of keys; authorities sign certificates, too.
        // The third byte says how many bits at the end are not used.
        let usage: [u8; 4] =
            if self.is_authority { [der::BITS, 2, 2, 0xa4] } else { [der::BITS, 2, 5, 0xa0] };
        let usages = USAGES.map(|usage| der::write(der::OBJECT, usage)).concat();
        let constraints: &[u8] = if self.is_authority { &[1, 1, 0xff] } else { &[] };
        let mut all = extension(KEY_USAGE, true, &usage);
        all.extend(extension(EXTENDED_KEY_USAGE, false, &der::write(der::SEQUENCE, &usages)));
        all.extend(extension(BASIC_CONSTRAINTS, true, &der::write(der::SEQUENCE, constraints)));
        if self.is_authority {
            // Go takes a truncated SHA-256 here since 1.25, and a SHA-1 before (RFC 7093).
            let identifier = &Sha256::digest(key.public())[..20];
            all.extend(extension(SUBJECT_KEY, false, &der::write(der::OCTETS, identifier)));
        }
        if let Some(identifier) = &signer.authority_key {
            // The first field, which is not a structure.
            all.extend(extension(
                AUTHORITY_KEY,
                false,
                &der::write(der::SEQUENCE, &der::write(0x80, identifier)),
            ));
        }
        if let Some(names) = &self.alternative_names {
            all.extend(extension(ALTERNATIVE_NAMES, false, names));
        }
        all
    }
}

/// Who signs.
struct Signer<'k> {
    key: &'k PrivateKey,
    issuer: Vec<u8>,
    authority_key: Option<Vec<u8>>,
}

impl<'k> Signer<'k> {
    fn itself(template: &Template, key: &'k PrivateKey) -> Self {
        Self { key, issuer: template.subject.clone(), authority_key: None }
    }
}

/// The relevant parts of a certificate that signs others.
struct Parent<'c> {
    subject: &'c [u8],
    public_info: &'c [u8],
    key_identifier: Option<&'c [u8]>,
}

impl<'c> Parent<'c> {
    fn read(bytes: &'c [u8]) -> Option<Self> {
        let mut certificate = Reader(bytes).sequence()?;
        let mut fields = certificate.sequence()?;
        certificate.sequence()?;
        certificate.read(der::BITS)?;
        if fields.peek() == Some(der::field(0)) {
            fields.next()?;
        }
        fields.read(der::INTEGER)?;
        // Algorithm, issuer, validity.
        for _ in 0..3 {
            fields.sequence()?;
        }
        let (subject, _) = fields.next().filter(|(whole, _)| whole.first() == Some(&der::SEQUENCE))?;
        let (public_info, _) = fields.next().filter(|(whole, _)| whole.first() == Some(&der::SEQUENCE))?;
        let mut key_identifier = None;
        while let Some((whole, content)) = fields.next() {
            if whole.first() == Some(&der::field(3)) {
                key_identifier = identifier(Reader(content).sequence()?);
            }
        }
        Some(Self { subject, public_info, key_identifier })
    }
}

/// The identifier of the subject's key among extensions.
fn identifier(mut extensions: Reader<'_>) -> Option<&[u8]> {
    while let Some(mut extension) = extensions.sequence() {
        if extension.read(der::OBJECT)? == SUBJECT_KEY {
            return Reader(extension.read(der::OCTETS)?).read(der::OCTETS);
        }
    }
    None
}

fn extension(object: &[u8], is_critical: bool, value: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if is_critical { &[1, 1, 0xff] } else { &[] };
    der::sequence(&[&der::write(der::OBJECT, object), critical, &der::write(der::OCTETS, value)])
}

/// A name that has a common name only, or nothing.
fn name(common: &[u8]) -> Vec<u8> {
    if common.is_empty() {
        return der::sequence(&[]);
    }
    // Go writes a `PrintableString` wherever it can, and a `UTF8String` else.
    let is_printable = |byte: &u8| byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(byte);
    let tag = if common.iter().all(is_printable) { 0x13 } else { 0x0c };
    let text = String::from_utf8_lossy(common);
    let attribute =
        der::sequence(&[&der::write(der::OBJECT, COMMON_NAME), &der::write(tag, text.as_bytes())]);
    der::sequence(&[&der::write(der::SET, &attribute)])
}

/// Hosts first, then addresses.
fn alternatives(names: &Names<'_>) -> Option<Vec<u8>> {
    let hosts = names.hosts.iter().map(|host| der::write(0x82, host));
    let addresses = names.addresses.iter().map(|address| match address {
        IpAddr::V4(address) => der::write(0x87, &address.octets()),
        // Go makes four bytes of an IPv4 address that is written in the form of IPv6.
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or_else(
            || der::write(0x87, &address.octets()),
            |address| der::write(0x87, &address.octets()),
        ),
    });
    let all: Vec<_> = hosts.chain(addresses).flatten().collect();
    (!all.is_empty()).then(|| der::write(der::SEQUENCE, &all))
}

/// A time with two digits of its year if these are enough, or with four.
fn time(seconds: i64) -> Option<Vec<u8>> {
    let text: String = calendar::format(seconds).chars().filter(char::is_ascii_digit).collect();
    let year: i64 = text.get(..4)?.parse().ok().filter(|_| text.len() == 14)?;
    // The sign of a year before Christ is lost with everything else that is no digit, so that the seconds
    // must tell.
    let in_short = (1950..2050).contains(&year) && seconds > -DAY * 365 * 20;
    (seconds >= -62_167_219_200).then_some(())?;
    Some(if in_short {
        der::write(0x17, format!("{}Z", &text[2..]).as_bytes())
    } else {
        der::write(0x18, format!("{text}Z").as_bytes())
    })
}

/// `genPrivateKey`.
pub(super) fn private_key(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let key = match characters(args, 0).as_ref() {
        "" | "rsa" => PrivateKey::rsa(ctx, 4096)?,
        "ecdsa" => PrivateKey::elliptic(ctx)?,
        "ed25519" => PrivateKey::ed25519(ctx)?,
        "dsa" => {
            return Err(Failure::new("genPrivateKey does not make DSA keys: they are no longer accepted"));
        }
        other => return Ok(Value::text(format!("Unknown type {other}"))),
    };
    Ok(Value::text(key.to_pem()))
}
