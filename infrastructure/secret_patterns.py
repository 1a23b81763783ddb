r"""Which secrets can be told by their own form: provider keys, signed tokens, webhooks, passwords in URLs.

A table, so that a reader sees at a glance what is known. Each rule begins with a literal, its gate: a text without
the gate is done after one substring search, and the regex engine skips to the literal as fast. Conditions on what
stands before the literal are therefore written behind it, as look-behinds that reach back over it.

Every rule is linear. Quantifiers are bounded or possessive, and an unbounded run may only begin where the character
before it is not one of its own, so that no character belongs to two attempts of one rule. A match ends where no
further word character follows: a mask in its place never gives what follows a left boundary that it did not have.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_WORD = r"A-Za-z0-9_\-"
_ALNUM = "A-Za-z0-9"
_HEX = "0-9a-f"
_UPPER = "A-Z0-9"
_TAIL = f"[{_WORD}]*+"
_STOP = "(?![A-Za-z0-9_]|-(?!----))"
"""No further word character; a private key may follow."""


LEAST = 19
"""The shortest secret that can be told by its form, in characters without a space; but for the password in a URL."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One form of secret: the pattern's first group if it has one, else its match and `lead` characters before it.

    Together they are at least `least` characters without a space between them.
    """

    kind: str
    gate: str
    pattern: re.Pattern[str]
    lead: int = 0
    least: int = LEAST


def _boundary(literal: str, barred: str = _WORD) -> str:
    r"""What must hold before `literal`, just matched: that no character of `barred` stands there.

    An escape ends in a word character and yet ends no word: \n in quoted text, %20 and \u003d in encoded text, a
    terminal's colours.
    """
    escapes = (r"\\[nrt]", "%[0-9A-Fa-f]{2}", r"\\u00[0-9A-Fa-f]{2}", r"[\[;][0-9]m", r"[\[;][0-9]{2}m")
    return "(?:" + "|".join([f"(?<![{barred}]{literal})", *(f"(?<={escape}{literal})" for escape in escapes)]) + ")"


def _run(chars: str, least: int, *, digit: bool = True) -> str:
    """At least so many characters, then the rest of the word; with a digit or a long part, which joined words lack."""
    seen = r"(?=[A-Za-z_.~=+/%\-]{0,80}[0-9]|[A-Za-z]{16})" if digit else ""
    return f"{seen}[{chars}]{{{least},}}+{_TAIL}"


def _exactly(chars: str, length: int) -> str:
    return f"[{chars}]{{{length}}}{_STOP}"


def _prefixed(kind: str, prefixes: str, body: str, barred: str = _WORD) -> Iterator[Rule]:
    for prefix in prefixes.split():
        literal = re.escape(prefix)
        yield Rule(kind, prefix, re.compile(literal + _boundary(literal, barred) + body))


def _form(kind: str, gate: str, pattern: str, lead: int = 0, least: int = LEAST) -> Iterator[Rule]:
    yield Rule(kind, gate, re.compile(pattern), lead, least)


_UUID = "-".join(f"[{_HEX}]{{{length}}}" for length in (8, 4, 4, 4, 12)) + _STOP

# `sk-` is also how English words, style sheets and libraries begin: without a provider's second prefix it takes at
# most three short groups, then one long unbroken one with a digit in it, or a very long one.
_SK = rf"(?:[a-z0-9]{{1,12}}-){{0,3}}(?:(?=[A-Za-z]{{0,40}}[0-9])[{_ALNUM}]{{16,}}+|[{_ALNUM}]{{32,}}+){_TAIL}"


def _models() -> Iterator[Rule]:
    yield from _prefixed("anthropic", "sk-ant-", rf"(?:[a-z]{{2,8}}[0-9]{{2}}-)?+{_run(_WORD, 20)}")
    yield from _prefixed("openai", "sk-proj- sk-svcacct- sk-admin- sk-None- sess-", _run(_WORD, 24))
    yield from _prefixed("openai", "sk-", _SK)
    yield from _prefixed("langfuse", "sk-lf-", _UUID)
    yield from _prefixed("google-api", "AIza", _exactly(_WORD, 35))
    yield from _prefixed("hugging-face", "hf_ api_org_", _run(_ALNUM, 30, digit=False))
    yield from _prefixed("groq", "gsk_", _run(_ALNUM, 40))
    yield from _prefixed("xai", "xai-", _run(_ALNUM, 40))
    yield from _prefixed("perplexity", "pplx-", _run(_ALNUM, 32))
    yield from _prefixed("replicate", "r8_", _run(_ALNUM, 32))
    yield from _prefixed("nvidia", "nvapi-", _run(_WORD, 40))
    yield from _prefixed("langsmith", "lsv2_pt_ lsv2_sk_", _run(_WORD, 32))
    yield from _prefixed("tavily", "tvly-", _run(_WORD, 20))
    yield from _prefixed("pinecone", "pcsk_", _run(_WORD, 32))
    yield from _prefixed("firecrawl", "fc-", _exactly(_HEX, 32))
    yield from _prefixed("e2b", "e2b_", _exactly(_HEX, 40))
    yield from _prefixed("jina", "jina_", _run(_WORD, 40))
    yield from _prefixed("together", "tgp_v1_", _run(_WORD, 32))


def _code_hosting() -> Iterator[Rule]:
    yield from _prefixed("github", "ghp_ gho_ ghu_ ghs_ ghr_", _run(_ALNUM, 30, digit=False))
    yield from _prefixed("github", "github_pat_", _run(_WORD, 22))
    yield from _prefixed("gitlab", "glpat- gldt- glrt- glcbt- glptt- glsoat- glft- glimt- gloas-", _run(_WORD, 20))
    yield from _prefixed("gitlab", "glagent- glffct-", _run(_WORD, 20))
    yield from _prefixed("atlassian", "ATATT3x ATCTT3x", _run(_WORD + "=", 50))
    yield from _prefixed("bitbucket", "ATBB", _run(_ALNUM, 28))
    yield from _prefixed("npm", "npm_", _run(_ALNUM, 36, digit=False))
    yield from _prefixed("pypi", "pypi-AgE pypi-AgN", _run(_WORD, 40))
    yield from _prefixed("rubygems", "rubygems_", _exactly(_HEX, 48))
    yield from _prefixed("docker", "dckr_pat_ dckr_oat_", _run(_WORD, 20))
    yield from _prefixed("artifactory", "AKCp", _run(_ALNUM, 60))
    yield from _prefixed("buildkite", "bkua_", _exactly(_HEX, 40))
    yield from _prefixed("circleci", "CCIPAT_", _run(_WORD, 40))
    yield from _prefixed("sourcegraph", "sgp_", _run(_HEX + "_", 40))
    yield from _prefixed("postman", "PMAK-", _run(_HEX + "-", 50))
    yield from _prefixed("sentry", "sntrys_ sntryu_", _run(_WORD + "+/=", 40))
    yield from _prefixed("grafana", "glsa_", _run(_WORD, 36))
    yield from _prefixed("grafana", "glc_", _run(_WORD + "+/=", 40))
    yield from _prefixed("new-relic", "NRAK-", _exactly(_UPPER, 27))
    yield from _prefixed("posthog", "phx_", _run(_ALNUM, 40))
    yield from _prefixed("figma", "figd_", _run(_WORD, 40))
    yield from _prefixed("linear", "lin_api_ lin_oauth_", _run(_ALNUM, 32))
    yield from _prefixed("notion", "ntn_", _run(_ALNUM, 40))
    yield from _prefixed("notion", "secret_", _exactly(_ALNUM, 43))
    yield from _prefixed("airtable", "pat", rf"[{_ALNUM}]{{14}}\.{_exactly(_HEX, 64)}")


def _clouds() -> Iterator[Rule]:
    yield from _prefixed("aws-key-id", "AKIA ASIA ABIA ACCA", _exactly(_UPPER, 16))
    yield from _prefixed("google-oauth", "GOCSPX-", _run(_WORD, 24))
    yield from _prefixed("google-oauth", "ya29.", rf"(?:[a-z]\.)?+{_run(_WORD, 30)}")
    yield from _prefixed("google-oauth", "1//0", _run(_WORD, 30))
    yield from _prefixed("digitalocean", "dop_v1_ doo_v1_ dor_v1_", _exactly(_HEX, 64))
    yield from _prefixed("databricks", "dapi", rf"[{_HEX}]{{32}}(?:-[0-9])?+{_STOP}")
    yield from _form("vault", "hv", rf"hv[sbr]\.{_boundary('hv..')}{_run(_WORD, 24)}")
    yield from _prefixed("age", "AGE-SECRET-KEY-1 AGE-SECRET-KEY-PQ-1", _run(_UPPER, 40))
    yield from _prefixed("heroku", "HRKU-", _run(_WORD, 36))
    yield from _prefixed("doppler", "dp.", rf"[a-z]{{2,5}}\.(?:[a-z0-9_\-]{{2,35}}\.)?{_run(_ALNUM, 40)}")
    yield from _prefixed("pulumi", "pul-", _exactly(_HEX, 40))
    yield from _prefixed("supabase", "sbp_", _exactly(_HEX, 40))
    yield from _prefixed("supabase", "sb_secret_", _run(_WORD, 20))
    yield from _prefixed("planetscale", "pscale_tkn_ pscale_pw_ pscale_oauth_", _run(_WORD, 30))
    yield from _prefixed("netlify", "nfp_", _run(_ALNUM, 36))
    yield from _prefixed("fly", "fo1_ fm1a_ fm1r_ fm2_", _run(_WORD + "+/=", 40))
    yield from _prefixed("tailscale", "tskey-", rf"[a-z]{{2,10}}-{_run(_WORD, 20)}")
    yield from _prefixed("cloudflare", "v1.0-", rf"[{_HEX}]{{24}}-{_run(_HEX, 100)}")
    yield from _prefixed("dynatrace", "dt0c01.", rf"[{_UPPER}]{{24}}\.{_run(_UPPER, 60)}")
    atlas = r"\.atlasv1\."
    yield from _form(
        "terraform", ".atlasv1.", rf"{atlas}(?<=(?<![{_WORD}])[{_ALNUM}]{{14}}{atlas}){_run(_WORD, 40)}", 14
    )
    azure = r"A-Za-z0-9_~.\-"
    yield from _form("azure-ad", "Q~", rf"Q~(?<=(?<![{azure}])[{azure}]{{3}}[0-9]Q~)[{azure}]{{31,34}}{_STOP}", 4)
    yield from _form("azure-sas", "sig=", rf"sig=(?<=[?&;]sig=)([A-Za-z0-9%+/=]{{30,}}+{_TAIL})")
    yield from _form("signed-url", "-Signature=", rf"-Signature=([A-Za-z0-9%+/=]{{30,}}+{_TAIL})")
    yield from _form("signed-url", " Signature=", rf" Signature=({_run(_HEX, 64)})")


def _messages_and_money() -> Iterator[Rule]:
    slack = "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xoxp- xoxe.xoxb- xapp-"
    yield from _prefixed("slack", slack, _run(_WORD + "%", 16))
    yield from _form(
        "slack-webhook", "hooks.slack.com/", rf"hooks\.slack\.com/(?:[a-z]{{1,16}}/)?+([{_WORD}/]{{20,}}+)"
    )
    yield from _form("discord-webhook", "/webhooks/", rf"/webhooks/[0-9]{{15,22}}/({_run(_WORD, 32, digit=False)})")
    yield from _form("teams-webhook", "/IncomingWebhook/", rf"/IncomingWebhook/([{_WORD}/]{{32,}}+)")
    # The first part is a number written in digits, in base64: it begins with one of these letters.
    yield from _form(
        "discord", ".", rf"[MNO](?<![{_WORD}].)[{_WORD}]{{22,28}}\.[{_WORD}]{{6}}\.[{_WORD}]{{27,}}+", least=58
    )
    bot = rf"[0-9](?:(?<![{_WORD}].)|(?<=bot.)|(?<=\\n.))[0-9]{{7,10}}"
    yield from _form("telegram", ":AA", rf"{bot}:AA[{_WORD}]{{32,33}}{_STOP}")
    yield from _prefixed("sendgrid", "SG.", rf"[{_WORD}]{{16,}}+\.[{_WORD}]{{16,}}+")
    yield from _prefixed("twilio", "SK AC", _exactly(_HEX, 32))
    yield from _prefixed("mailgun", "key-", _exactly(_HEX, 32))
    mailgun = rf"-(?<=(?<![{_WORD}])[{_HEX}]{{32}}-)[{_HEX}]{{8}}-{_exactly(_HEX, 8)}"
    yield from _form("mailgun", "-", mailgun, 32)
    yield from _form("mailchimp", "-us", rf"-us(?<=(?<![{_WORD}])[{_HEX}]{{32}}-us)[0-9]{{1,2}}{_STOP}", 32)
    yield from _prefixed("brevo", "xkeysib- xsmtpsib-", _run(_WORD, 60))
    yield from _prefixed("stripe", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", _run(_ALNUM + "+/=", 20))
    yield from _form("square", "sq0", rf"sq0(?:atp|csp)-{_boundary('sq0....')}{_run(_WORD, 22, digit=False)}")
    # Runs of zero bytes are A's in base64, so that an image may hold this one between two of its signs.
    yield from _prefixed("square", "EAAA", rf"(?=[A-Za-z]{{0,20}}[0-9])[{_WORD}]{{60}}{_STOP}", _WORD + "+/")
    yield from _prefixed("shopify", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32}" + _STOP)
    yield from _prefixed("shippo", "shippo_live_ shippo_test_", _exactly(_HEX, 40))
    yield from _prefixed("easypost", "EZAK EZTK", _run(_ALNUM, 54))
    yield from _prefixed("plaid", "access-sandbox- access-development- access-production-", _UUID)
    yield from _prefixed(
        "braintree", "access_token$production$ access_token$sandbox$", rf"[a-z0-9]{{16}}\${_exactly(_HEX, 32)}"
    )
    yield from _prefixed("flutterwave", "FLWSECK- FLWSECK_TEST-", _run(_WORD, 30))


def _signed_and_urls() -> Iterator[Rule]:
    part = f"[{_WORD}]"
    second = rf"(?:\.{part}{{8,}}+\.{part}*+|\.eyJ{part}{{8,}}+|\.\.{part}{{8,}}+)"
    yield from _prefixed("jwt", "eyJ", rf"{part}{{8,}}+{second}(?:\.{part}++){{0,3}}+")
    yield from _prefixed("mapbox", "sk.eyJ", rf"{part}{{20,}}+\.{part}{{16,}}+")
    # The name may be empty. A password runs to the last @ before the next slash. One with an unescaped slash is only
    # looked for in URLs of servers: in those of pages, registries and packages a colon and an @ mean other things.
    name = r"[^\s/?#@:\"'<>`\\]{0,256}+:(?![0-9]{1,5}[/;,?#])"
    ended = r"@(?=[^\s@])(?!sha(?:256|512):)"
    plain = rf"{name}([^\s/\"'<>`\\]+){ended}"
    server = r"(?<=[a-z][a-z]://)(?<!https://)(?<!http://)(?<!docker://)(?<!oci://)"
    slashed = rf"{server}{name}([^\s\"'<>`\\@]{{1,100}}){ended}"
    yield from _form("url", "://", rf"://(?:{plain}|{slashed})", least=0)
    yield from _form("url", ":\\/\\/", rf":\\/\\/{plain}", least=0)


RULES: tuple[Rule, ...] = (
    *_models(),
    *_code_hosting(),
    *_clouds(),
    *_messages_and_money(),
    *_signed_and_urls(),
)
"""Every form that is known."""

PRIVATE_KEY_BEGINS = re.compile(
    r"-----?[ ]?BEGIN(?:[ +]|%20)(?:[A-Z0-9]{2,12}(?:[ +]|%20)){0,3}"
    r"PRIVATE(?:[ +]|%20)KEY(?:(?:[ +]|%20)BLOCK)?[ ]?----+"
)
PRIVATE_KEY_ENDS = re.compile(PRIVATE_KEY_BEGINS.pattern.replace("BEGIN", "END", 1) + _TAIL)
"""The two lines around a private key, in whatever of the usual armours; no public key and no certificate."""
