"""Tokens of PyJWT, and what PyJWT itself says of each: `issuer.py SECONDS`, the time at which they are made.

The output is JSON: a set of keys, and the tokens with algorithm, case and verdict.
"""

import base64
import json
import sys

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SECRET = "0123456789abcdef0123456789abcdef"
ISSUER = "https://id.example.com/"
HOUR = 3600
NOW = int(sys.argv[1])


def text(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def number(value, size):
    return text(value.to_bytes(size, "big"))


def jwk(key):
    public = key.public_key()
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = public.public_numbers()
        return {"kty": "RSA", "n": number(numbers.n, 256), "e": number(numbers.e, 3)}
    if isinstance(key, ec.EllipticCurvePrivateKey):
        numbers = public.public_numbers()
        return {"kty": "EC", "crv": "P-256", "x": number(numbers.x, 32), "y": number(numbers.y, 32)}
    return {"kty": "OKP", "crv": "Ed25519", "x": text(public.public_bytes(Encoding.Raw, PublicFormat.Raw))}


MAKERS = {
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}
KEYS = {algorithm: make() for algorithm, make in MAKERS.items()}
OTHERS = {algorithm: make() for algorithm, make in MAKERS.items()}
KEYS["HS256"], OTHERS["HS256"] = SECRET, SECRET[::-1]
SET = {"keys": [{**jwk(KEYS[it]), "kid": it, "alg": it, "use": "sig"} for it in MAKERS]}

CLAIMS = {"sub": "alice", "iss": ISSUER, "aud": "shop", "exp": NOW + HOUR}
# Each case: changes of the claims; None removes one.
CASES = {
    "whole": {},
    "many audiences": {"aud": ["x", "shop"]},
    "begun": {"nbf": NOW - HOUR, "iat": NOW - HOUR},
    "expired": {"exp": NOW - HOUR},
    "for ever": {"exp": None},
    "not begun": {"nbf": NOW + HOUR},
    "other audience": {"aud": "store"},
    "other audiences": {"aud": ["x", "store"]},
    "no audience": {"aud": None},
    "other issuer": {"iss": "https://id.example.net/"},
    "no issuer": {"iss": None},
}


def is_accepted(token, algorithm):
    """The verdict of PyJWT, with the key that the token names."""
    try:
        kid = jwt.get_unverified_header(token)["kid"]
        if algorithm == "HS256":
            key = SECRET
        else:
            key = {it.key_id: it.key for it in jwt.PyJWKSet.from_dict(SET).keys}[kid]
        needs = {"require": ["exp"]}
        jwt.decode(token, key, algorithms=[algorithm], audience="shop", issuer=ISSUER, leeway=30, options=needs)
    except (jwt.PyJWTError, KeyError, TypeError, AttributeError):  # Keys of another type have the last two.
        return False
    return True


def tokens(algorithm):
    def made(case, claims, key=KEYS[algorithm], signs=algorithm, kid=algorithm):
        token = jwt.encode(claims, key, algorithm=signs, headers={"kid": kid})
        is_right = is_accepted(token, algorithm)
        return {"algorithm": algorithm, "case": case, "token": token, "accepted": is_right}

    for case, changes in CASES.items():
        claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
        yield made(case, claims)
    yield made("other key", CLAIMS, key=OTHERS[algorithm])
    yield made("no algorithm", CLAIMS, key=None, signs="none")
    if algorithm in MAKERS:
        other = "ES256" if algorithm == "RS256" else "RS256"
        yield made("unknown kid", CLAIMS, kid="none")
        yield made("kid of another key", CLAIMS, kid=other)
        yield made("key of another kid", CLAIMS, key=KEYS[other], signs=other)


ALL = [token for algorithm in KEYS for token in tokens(algorithm)]
print(json.dumps({"set": SET, "secret": SECRET, "tokens": ALL}))
