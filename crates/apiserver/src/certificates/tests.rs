//! Certificates that are made, kept, renewed and refused.

use std::os::unix::fs::PermissionsExt as _;

use jiff::SignedDuration;
use tempfile::TempDir;

use super::*;
use crate::auth::authenticate::Peer;

fn names() -> Vec<String> {
    server_names("10.1.2.3:6443".parse().unwrap())
}

fn open(directory: &TempDir, now: Timestamp) -> Certificates {
    Certificates::open(&directory.path().join("pki"), names(), now).unwrap()
}

fn days(count: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * count)
}

fn shown(certificates: &Certificates) -> CertificateDer<'static> {
    certificates.lock_current().key.cert[0].clone()
}

fn ders(issued: &Issued) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(issued.certificate.as_bytes()).map(Result::unwrap).collect()
}

fn identify(certificates: &Arc<Certificates>, issued: &Issued) -> Peer {
    certificates.server_config().unwrap().1.identify(Some(&ders(issued)))
}

#[test]
fn second_start_uses_what_the_first_one_made() {
    let (directory, now) = (TempDir::new().unwrap(), Timestamp::now());
    let first = open(&directory, now);
    let second = open(&directory, now);
    assert_eq!(first.bundle(), second.bundle());
    assert_eq!(shown(&first), shown(&second));
    for entry in std::fs::read_dir(directory.path().join("pki")).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(directory.path().join("pki").metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn certificate_is_renewed_in_time_while_running_and_at_the_next_start() {
    let (directory, now) = (TempDir::new().unwrap(), Timestamp::now());
    let certificates = open(&directory, now);
    let first = shown(&certificates);
    assert!(!certificates.renew_if_due(now + days(240)).unwrap().server);
    assert!(certificates.renew_if_due(now + days(250)).unwrap().server);
    let second = shown(&certificates);
    assert_ne!(first, second);
    assert_eq!(shown(&open(&directory, now + days(251))), second);
    assert_ne!(shown(&open(&directory, now + days(700))), second);
}

#[test]
fn certificate_without_a_wanted_name_or_that_is_broken_is_replaced() {
    let (directory, now) = (TempDir::new().unwrap(), Timestamp::now());
    let first = shown(&open(&directory, now));
    let pki = directory.path().join("pki");
    let named = Certificates::open(&pki, vec!["plane.example.org".to_owned()], now).unwrap();
    assert_ne!(shown(&named), first);
    for (file, content) in [("server.key", "broken"), ("server.crt", "broken")] {
        std::fs::write(pki.join(file), content).unwrap();
        open(&directory, now);
    }
    let other = Certificates::ephemeral(names(), now).unwrap();
    let foreign = other.authority.issue_server(&names(), now).unwrap();
    std::fs::write(pki.join("server.crt"), &foreign.certificate).unwrap();
    std::fs::write(pki.join("server.key"), &foreign.key).unwrap();
    assert_ne!(shown(&open(&directory, now)), ders(&foreign)[0]);
}

#[test]
fn authority_that_cannot_be_used_is_an_error_and_stays() {
    let (directory, now) = (TempDir::new().unwrap(), Timestamp::now());
    open(&directory, now);
    let pki = directory.path().join("pki");
    let open = |now| Certificates::open(&pki, names(), now).map_err(|error| error.to_string());
    let certificate = std::fs::read(pki.join("ca.crt")).unwrap();
    assert!(open(now + days(3_700)).unwrap_err().contains("it has expired"));
    let (_, key) = {
        let other = Certificates::ephemeral(names(), now).unwrap();
        let issued = other.issue_client("x", &[], now).unwrap();
        (issued.certificate, issued.key)
    };
    std::fs::write(pki.join("ca.key"), key).unwrap();
    assert!(open(now).unwrap_err().contains("belongs to another certificate"));
    std::fs::remove_file(pki.join("ca.key")).unwrap();
    assert!(open(now).unwrap_err().contains("ca.key, is missing"));
    assert_eq!(std::fs::read(pki.join("ca.crt")).unwrap(), certificate);
    std::fs::write(pki.join("ca.key"), "x").unwrap();
    std::fs::write(pki.join("ca.crt"), "").unwrap();
    open(now).unwrap_err();
}

#[test]
fn client_is_known_by_our_certificate_only() {
    let now = Timestamp::now();
    let ours = Arc::new(Certificates::ephemeral(names(), now).unwrap());
    let theirs = Arc::new(Certificates::ephemeral(names(), now).unwrap());
    let client = ours.issue_client("admin", &["system:masters"], now).unwrap();
    assert!(matches!(identify(&ours, &client), Peer::Verified(_)));
    assert_eq!(identify(&theirs, &client), Peer::Refused);
    let expired = ours.issue_client("admin", &[], now - days(400)).unwrap();
    assert_eq!(identify(&ours, &expired), Peer::Refused);
    let server = ours.authority.issue_server(&names(), now).unwrap();
    assert_eq!(identify(&ours, &server), Peer::Refused);
    assert_eq!(ours.server_config().unwrap().1.identify(None), Peer::Unknown);
}

#[test]
fn clients_of_the_previous_authority_are_known_until_it_is_removed() {
    let (directory, now) = (TempDir::new().unwrap(), Timestamp::now());
    let pki = directory.path().join("pki");
    let client = open(&directory, now).issue_client("admin", &[], now).unwrap();
    std::fs::rename(pki.join("ca.crt"), pki.join("ca-previous.crt")).unwrap();
    std::fs::remove_file(pki.join("ca.key")).unwrap();
    let both = Arc::new(open(&directory, now));
    assert!(matches!(identify(&both, &client), Peer::Verified(_)));
    assert_eq!(both.bundle().matches("BEGIN").count(), 2);
    std::fs::remove_file(pki.join("ca-previous.crt")).unwrap();
    assert_eq!(identify(&Arc::new(open(&directory, now)), &client), Peer::Refused);
}

#[test]
fn client_certificates_that_are_revoked_do_not_count_any_more() {
    let (directory, now) = (TempDir::new().unwrap(), Timestamp::now());
    let pki = directory.path().join("pki");
    let certificates = Arc::new(open(&directory, now));
    let issue = |at| certificates.issue_client("admin", &[], at).unwrap();
    let minute = SignedDuration::from_mins(1);
    // What older releases issued: for a year, and from an hour before.
    let request = ferroplane_certificates::LeafRequest {
        common_name: "admin",
        organizations: &[],
        names: &[],
        purpose: ferroplane_certificates::Purpose::Client,
    };
    let key = std::fs::read_to_string(pki.join("ca.key")).unwrap();
    let signer = ferroplane_certificates::Authority::read(certificates.bundle(), &key, now).unwrap();
    let long = signer.issue(&request, now - minute - minute).unwrap();
    let (before, after) = (issue(now - minute), issue(now));
    // As on connections that are open already.
    let peers = [&long, &before, &after].map(|issued| identify(&certificates, issued));
    let known = |peers: &[Peer; 3]| peers.each_ref().map(|peer| !peer.is_refused_at(now));
    assert_eq!(known(&peers), [true, true, true]);

    revoke_clients(&pki, now - SignedDuration::from_secs(30)).unwrap();
    assert!(certificates.renew_if_due(now).unwrap().revocation);
    assert_eq!(known(&peers), [false, false, true]);
    assert!(!certificates.renew_if_due(now).unwrap().revocation, "it is told once");
    // After a restart as well, and a client that connects anew.
    let restarted = Arc::new(open(&directory, now));
    let peers = [&long, &before, &after].map(|issued| identify(&restarted, issued));
    assert_eq!(known(&peers), [false, false, true]);

    std::fs::write(pki.join("revoked-until"), "soon").unwrap();
    let error = Certificates::open(&pki, names(), now).unwrap_err().to_string();
    assert!(error.contains("cannot tell which client certificates are revoked"), "{error}");
    certificates.renew_if_due(now).unwrap_err();
    assert_eq!(known(&peers), [false, false, true], "what was revoked stays so");
}

#[test]
fn certificate_of_a_client_holds_for_a_week() {
    let now = Timestamp::now();
    let certificates = Arc::new(Certificates::ephemeral(names(), now).unwrap());
    let peer = identify(&certificates, &certificates.issue_client("admin", &[], now).unwrap());
    assert!(!peer.is_refused_at(now + days(7)));
    assert!(peer.is_refused_at(now + days(7) + SignedDuration::from_secs(1)));
}

#[test]
fn server_goes_by_its_usual_names() {
    let names = names();
    for name in ["localhost", "::1", "10.1.2.3", "kubernetes.default.svc"] {
        assert!(names.iter().any(|candidate| candidate == name), "{name}");
    }
    let everywhere = server_names("0.0.0.0:6443".parse().unwrap());
    assert!(!everywhere.contains(&"0.0.0.0".to_owned()));
}

#[test]
fn keys_are_not_shown() {
    let now = Timestamp::now();
    let issued = Certificates::ephemeral(names(), now).unwrap().issue_client("x", &[], now).unwrap();
    assert!(!format!("{issued:?}").contains("PRIVATE KEY"));
}
