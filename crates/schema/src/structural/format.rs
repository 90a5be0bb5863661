//! Formats of text: those that Kubernetes checks, as it checks them.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/validation/strfmt/default.go`; apiextensions-apiserver 0.36.4,
//! `pkg/apiserver/validation/formats.go`.

mod calendar;
mod email;
mod network;
mod shapes;

use ferroplane_golang::url;

/// Whether a text has the format.
pub(super) type Check = fn(&str) -> bool;

/// Whether Kubernetes cares about the format in a schema of this type. It passes over all others.
pub(super) fn is_supported(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => find(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// The check for a format, if there is such a format. Dashes in its name do not matter.
pub(super) fn find(format: &str) -> Option<Check> {
    Some(match format.replace('-', "").as_str() {
        "bsonobjectid" => |text| text.len() == 24 && shapes::is_hex(text),
        "uri" => |text| url::parse_request(text).is_ok(),
        "email" => email::is_email,
        "hostname" => network::is_hostname,
        "ipv4" => network::is_ipv4,
        "ipv6" => network::is_ipv6,
        "cidr" => network::is_cidr,
        "mac" => network::is_mac,
        "uuid" => |text| shapes::is_uuid(text, None, false),
        "uuid3" => |text| shapes::is_uuid(text, Some('3'), false),
        "uuid4" => |text| shapes::is_uuid(text, Some('4'), true),
        "uuid5" => |text| shapes::is_uuid(text, Some('5'), true),
        "isbn" => |text| shapes::is_isbn10(text) || shapes::is_isbn13(text),
        "isbn10" => shapes::is_isbn10,
        "isbn13" => shapes::is_isbn13,
        "creditcard" => shapes::is_credit_card,
        "ssn" => shapes::is_social_security_number,
        "hexcolor" => shapes::is_hex_color,
        "rgbcolor" => shapes::is_rgb_color,
        "byte" => shapes::is_base64,
        "password" => |_| true,
        "date" => calendar::is_date,
        "duration" => calendar::is_duration,
        "datetime" => calendar::is_date_time,
        "k8sshortname" => |text| crate::names::is_label(text),
        "k8slongname" => |text| crate::names::is_subdomain(text),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, good: &[&str], bad: &[&str]) {
        let check = find(format).expect(format);
        for text in good {
            assert!(check(text), "{format} {text}");
        }
        for text in bad {
            assert!(!check(text), "{format} {text}");
        }
    }

    #[test]
    fn formats_are_those_of_kubernetes() {
        check("date", &["2024-02-29"], &["2023-02-29", "2024-1-01", "2024-01-01 ", "0000-00-00", ""]);
        check(
            "date-time",
            &["2024-02-29T23:59:59.1+01:00", "2024-02-29t00:00:00z"],
            &["2024-02-29T24:00:00Z"],
        );
        check("duration", &["1h", "22 ns", "-1.5s", "0", "3 weeks"], &["1", "", "h", "one h"]);
        check("email", &["a@b", "A <a@b.c>", "\"x y\"@b"], &["a", "a@", "a@b c", "@b"]);
        check("uri", &["/a", "https://a/b?c", "a:b", "*"], &["a", "", "//a%zz", "https://a:x/"]);
        check("ipv4", &["1.2.3.4", "01.2.3.4", "::1.2.3.4"], &["1.2.3", "::1", "256.1.1.1"]);
        check("ipv6", &["::1", "1:2:3:4:5:6:7:8"], &["1.2.3.4", "::1%eth0", "12345::"]);
        check("cidr", &["1.2.3.0/24", "::/0", "01.2.3.0/024"], &["1.2.3.4", "1.2.3.4/33"]);
        check("mac", &["00:00:5e:00:53:01", "0000.5e00.5301"], &["00:00:5e:00:53", "00-00:5e-00-53-01"]);
        check("uuid4", &["01234567-89ab-4def-8123-456789abcdef"], &["01234567-89ab-3def-8123-456789abcdef"]);
        check("byte", &["YQ==", "YWI=", "YWJj"], &["", "YQ=", "YQ", "Y$=="]);
        check("hostname", &["a", "a-b", "a.bc", "x.y-z.com"], &["-a", "a.b", "a_b", "a-b-c", ""]);
        check("isbn10", &["0321751043", "032175104-3"], &["0321751044"]);
        check("isbn13", &["978-0321751041"], &["978-0321751042"]);
        check("creditcard", &["4111-1111-1111-1111"], &["4111111111111112"]);
        check("rgbcolor", &["rgb(1, 2,255)"], &["rgb(1,2,256)"]);
        check("k8s-short-name", &["a-b"], &["a.b", "A"]);
    }
}
