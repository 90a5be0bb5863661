//! RSA keys: made, read, written, and used to sign certificates.
//!
//! Our own design: RSA as RFC 8017 has it, with random numbers of the [`Host`](crate::Host). Libraries that make keys bring their own
//! random numbers. A user who can measure how long signing takes could learn about the key; a certificate is signed once, in the control
//! plane.

use num_bigint::BigUint;
use sha2::{Digest as _, Sha256};

use super::der::{self, Reader};
use crate::{Context, Failure};

/// `e` of all keys.
const EXPONENT: u32 = 65_537;

/// Keys that are read have so many bits, as computing with larger ones takes long.
const BITS: std::ops::RangeInclusive<u64> = 1024..=8192;

/// How often a number is tried that is probably a prime. For random numbers of this size far less would do.
const ROUNDS: usize = 8;

/// `DigestInfo` of SHA-256, up to the hash.
const SHA_256: [u8; 19] = [
    0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00,
    0x04, 0x20,
];

/// A private key.
#[derive(Debug)]
pub(super) struct Rsa {
    modulus: BigUint,
    public: BigUint,
    private: BigUint,
    primes: [BigUint; 2],
}

impl Rsa {
    pub(super) fn generate(ctx: &mut Context<'_>, bits: u64) -> Result<Self, Failure> {
        let public = BigUint::from(EXPONENT);
        loop {
            let primes = [prime(ctx, bits / 2, &public)?, prime(ctx, bits / 2, &public)?];
            let [one, other] = primes.each_ref().map(|prime| prime - 1_u32);
            // Two equal primes would make a modulus that anybody can factor by its root.
            let Some(private) = public.modinv(&(one * other)).filter(|_| primes[0] != primes[1]) else {
                continue;
            };
            return Ok(Self { modulus: &primes[0] * &primes[1], public, private, primes });
        }
    }

    /// Reads an `RSAPrivateKey`.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut key = Reader(bytes).sequence()?;
        key.integer().filter(|version| *version == BigUint::ZERO)?;
        let [modulus, public, private] = [key.integer()?, key.integer()?, key.integer()?];
        let primes = [key.integer()?, key.integer()?];
        let is_whole = &primes[0] * &primes[1] == modulus && primes.iter().all(|prime| prime.bit(0));
        let is_sound = BITS.contains(&modulus.bits()) && is_whole && private < modulus && public < modulus;
        is_sound.then_some(Self { modulus, public, private, primes })
    }

    /// An `RSAPrivateKey`.
    pub(super) fn write(&self) -> Vec<u8> {
        let [one, other] = &self.primes;
        let exponents = [one, other].map(|prime| &self.private % (prime - 1_u32));
        let coefficient = other.modinv(one).unwrap_or_default();
        let numbers = [
            &BigUint::ZERO,
            &self.modulus,
            &self.public,
            &self.private,
            one,
            other,
            &exponents[0],
            &exponents[1],
            &coefficient,
        ];
        der::write(der::SEQUENCE, &numbers.map(der::integer).concat())
    }

    /// An `RSAPublicKey`.
    pub(super) fn public(&self) -> Vec<u8> {
        der::sequence(&[&der::integer(&self.modulus), &der::integer(&self.public)])
    }

    /// Signs the hash of a message, as in PKCS #1 v1.5.
    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let length = usize::try_from(self.modulus.bits().div_ceil(8)).unwrap_or_default();
        let hash = Sha256::digest(message);
        let filler = vec![0xff; length.saturating_sub(SHA_256.len() + hash.len() + 3)];
        let padded = [&[0, 1][..], &filler, &[0], &SHA_256, &hash].concat();
        let signature = BigUint::from_bytes_be(&padded).modpow(&self.private, &self.modulus).to_bytes_be();
        [vec![0; length.saturating_sub(signature.len())], signature].concat()
    }
}

/// A random prime of so many bits, of which the first two are set, so that the product of two has twice as many.
fn prime(ctx: &mut Context<'_>, bits: u64, exponent: &BigUint) -> Result<BigUint, Failure> {
    loop {
        let mut bytes = vec![0; usize::try_from(bits / 8).unwrap_or_default()];
        ctx.random(&mut bytes)?;
        if let Some(first) = bytes.first_mut() {
            *first |= 0xc0;
        }
        if let Some(last) = bytes.last_mut() {
            *last |= 1;
        }
        let start = BigUint::from_bytes_be(&bytes);
        let rests: Vec<_> = SMALL_PRIMES.iter().map(|prime| (*prime, small_rest(&start, *prime))).collect();
        // From one random number on, so that most candidates take no division.
        for more in (0..1_u32 << 14).step_by(2) {
            ctx.step(1)?;
            if rests.iter().any(|(prime, rest)| (rest + more) % prime == 0) {
                continue;
            }
            let candidate = &start + more;
            // Counting up ran into the next power of two: a new random number is drawn.
            if candidate.bits() != bits {
                break;
            }
            if is_prime(ctx, &candidate)? && (&candidate - 1_u32) % exponent != BigUint::ZERO {
                return Ok(candidate);
            }
        }
    }
}

fn small_rest(number: &BigUint, prime: u32) -> u32 {
    u32::try_from(number % prime).unwrap_or_default()
}

/// The test of Miller and Rabin, first with 2, then with random numbers.
fn is_prime(ctx: &mut Context<'_>, candidate: &BigUint) -> Result<bool, Failure> {
    let last = candidate - 1_u32;
    let twos = last.trailing_zeros().unwrap_or_default();
    let odd = &last >> twos;
    let mut base = BigUint::from(2_u32);
    for _ in 0..=ROUNDS {
        // Each power takes from one to ten milliseconds.
        ctx.step(candidate.bits() * 5)?;
        if !is_passed(&base, &odd, twos, candidate, &last) {
            return Ok(false);
        }
        let mut bytes = vec![0; usize::try_from(candidate.bits() / 8).unwrap_or_default()];
        ctx.random(&mut bytes)?;
        base = BigUint::from_bytes_be(&bytes) % (candidate - 3_u32) + 2_u32;
    }
    Ok(true)
}

/// Whether the base knows no reason why the candidate is no prime.
fn is_passed(base: &BigUint, odd: &BigUint, twos: u64, candidate: &BigUint, last: &BigUint) -> bool {
    let mut power = base.modpow(odd, candidate);
    if power == BigUint::from(1_u32) || power == *last {
        return true;
    }
    (1..twos).any(|_| {
        power = &power * &power % candidate;
        power == *last
    })
}

/// The primes from 3 to 2,000 or so: nine of ten numbers that are no primes have a factor among them.
static SMALL_PRIMES: std::sync::LazyLock<Vec<u32>> = std::sync::LazyLock::new(|| {
    let mut primes: Vec<u32> = Vec::new();
    for number in (3..2000).step_by(2) {
        if primes.iter().all(|prime| number % prime != 0) {
            primes.push(number);
        }
    }
    primes
});
