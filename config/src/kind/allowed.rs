//! The allowed values of each form of a text, as the end of a sentence about a wrong one.

use super::*;

const LISTEN: &str = "ADDR:PORT such as \"0.0.0.0:8080\", \"[::]:8080\" for every interface, \"https://ADDR:PORT\", or \"unix:/PATH\"; with a PROXY protocol \
    header, \"http+proxy://ADDR:PORT\", \"https+proxy://ADDR:PORT\" or \"unix+proxy:/PATH\"";
const FRONT_CONTROLLER: &str = "the path of a script in php.root, such as \"/index.php\", or \"off\"";
const PATH_PATTERN: &str =
    "a path such as \"/about\", \"/static/*\", \"*.php\", \"/shop/{id}\" or \"regex:/shop/[0-9]+\"";
const REWRITE_PREFIX: &str =
    "a path such as \"/api\", without \"//\", \".\", \"..\", \"?\", \"#\" and wildcards";
const SECRET_TEMPLATE: &str = "the value of a header field, with variables such as \"{client}\", or \"file:PATH\" for the content of a file";
const VARIABLE_TEMPLATE: &str = "a text without control characters, with variables such as \"{host}\", or \"file:PATH\" for the content of a file";
const SQL_PARAMETER_NAME: &str = "a name of letters, digits and \"_\", which does not begin with a digit";
const TRY_MEMBER: &str = "a path in files.root that begins with \"/\" or \"{path}\", such as \"{path}.html\"; or \"=404\" or \"=410\"";
const LANGUAGE: &str = "a language tag such as \"de\" or \"pt-BR\", without wildcards and weights";
const OFFER: &str = "a media type such as text/html, in lower case, without wildcards and parameters";
const MEMCACHED: &str =
    "\"HOST:PORT\" or \"unix:/PATH\", optionally followed by a space and \"weight=N\" from 1 to 1000";
const PAGE_ORIGIN: &str =
    "the origin of a page such as \"https://example.com\", \"https://*.example.com\", \"null\" or \"*\"";
const ACCESS_ADDRESS: &str =
    "a network such as \"10.0.0.0/8\", an IP address, \"unix\", \"country:DE\" or \"asn:64496\"";
const RATE: &str = "a rate such as \"5/s\", \"100/m\", \"1000/h\" or \"5000/d\", at most 100000 in a second";
const JWT_ALGORITHM: &str = "\"HS256\", \"HS384\", \"HS512\", \"RS256\", \"RS384\", \"RS512\", \"PS256\", \"PS384\", \"PS512\", \"ES256\", \
    \"ES384\" or \"EdDSA\"";
const SECURE_LINK: &str =
    "a text with \"{expires}\", \"{path}\" and \"{secret}\", and optionally \"{client}\" and \"{host}\"";
const REQUEST_TARGET: &str =
    "a path that begins with \"/\", such as \"/oauth2/auth\", with or without a query";

impl TextForm {
    /// The allowed values, as the end of a sentence.
    #[must_use]
    pub fn allowed(self) -> &'static str {
        match self {
            TextForm::Listen => LISTEN,
            TextForm::SocketAddress => "ADDR:PORT such as \"127.0.0.1:9180\"",
            TextForm::Origin => address::ORIGIN,
            TextForm::Member => member::ALLOWED,
            TextForm::FastCgiMember => member::FASTCGI_ALLOWED,
            TextForm::FrontController => FRONT_CONTROLLER,
            TextForm::VariableName => "a name of letters, digits and \"_\", such as \"APP_ENV\"",
            TextForm::HashBy => "\"target\", \"client\", \"header:NAME\" or \"cookie:NAME\"",
            TextForm::FailureStatus => "a status from 400 to 599",
            TextForm::Host => "a host name without port, \"*.NAME\" for any subdomain, or \"*\"",
            TextForm::HostName => "a host name without port, such as \"ops.example.com\"",
            TextForm::PathPattern => PATH_PATTERN,
            TextForm::Condition => "a condition such as 'header.Accept ~ \"json\" && method != \"POST\"'",
            TextForm::PathPrefix => "a path that begins with \"/\"",
            TextForm::ResponseCondition => "a condition such as 'status == 404 && type == \"text/html\"'",
            TextForm::RewritePrefix => REWRITE_PREFIX,
            TextForm::Authority => "HOST or HOST:PORT, such as \"app.internal\"",
            TextForm::ParameterName => "the name of a query parameter, in ASCII, not percent-encoded",
            TextForm::RouteName => "a name of letters, digits, \"-\", \"_\" and \".\", 64 bytes at most",
            TextForm::BlockName => "the name of a section [block.NAME]",
            TextForm::SecretTemplate => SECRET_TEMPLATE,
            TextForm::VariableTemplate => VARIABLE_TEMPLATE,
            TextForm::DatabaseUrl => PLACE_FORMS,
            TextForm::Replica => REPLICA_FORM,
            TextForm::Sql => "one statement of SQL",
            TextForm::SqlParameterName => SQL_PARAMETER_NAME,
            TextForm::SqlParameter => PARAMETER_FORM,
            TextForm::ShownRows => SHOWN_ROWS_FORM,
            TextForm::TableColumn => TABLE_COLUMN_FORM,
            TextForm::StatusRange => "a status from 100 to 599, or a range such as \"200-399\"",
            TextForm::BodyTest => "a text, or \"regex:\" and a regular expression",
            TextForm::PathTemplate => "a path with variables, such as \"/item/{id}\", without \"#\"",
            TextForm::TimeShare => TimeShare::ALLOWED,
            TextForm::KeyUrl => KeyUrl::ALLOWED,
            TextForm::EmailAddress => "an email address, such as \"ops@example.com\"",
            TextForm::Secret => "a text, or \"file:PATH\" for the content of a file",
            TextForm::Path | TextForm::PathFor(_) => "a path",
            TextForm::PathOrOff => "a path, or off",
            TextForm::LogTarget => "a path, \"-\", \"syslog\" or \"off\"",
            TextForm::FinishedCondition => "a condition over the finished request, such as 'status >= 500'",
            TextForm::LogFormat => form::ALLOWED,
            TextForm::TryMember => TRY_MEMBER,
            TextForm::Page => "the path of a file in files.root, such as \"/404.html\"",
            TextForm::FileName => "the name of a file, without \"/\"",
            TextForm::Method => "a method such as \"GET\"",
            TextForm::FieldName => "the name of a header field",
            TextForm::FieldValue => "the value of a header field, in ASCII",
            TextForm::CookieName => "the name of a cookie",
            TextForm::CookieGlob => "the name of a cookie, with at most one \"*\" for any text",
            TextForm::ParameterGlob => "the name of a query parameter, or a prefix and \"*\"",
            TextForm::Tier => "\"ram\", \"disk\" or \"fleet\"",
            TextForm::Coding => "\"zstd\", \"br\" or \"gzip\"",
            TextForm::MediaType => "a media type such as text/html, text/* or +xml, in lower case",
            TextForm::Offer => OFFER,
            TextForm::Language => LANGUAGE,
            TextForm::Memcached => MEMCACHED,
            TextForm::KeyText => "1 to 100 printable ASCII characters without spaces and #",
            TextForm::BodyTemplate => "a text of one or several lines, with variables such as \"{host}\"",
            TextForm::Template => "a text, with variables such as \"{host}\"",
            TextForm::PageOrigin => PAGE_ORIGIN,
            TextForm::ErrorStatus => "a status from 400 to 599, \"4xx\" or \"5xx\"",
            TextForm::Network => "a network such as \"10.0.0.0/8\", or an IP address",
            TextForm::Peer => "a network such as \"10.0.0.0/8\", an IP address, or \"unix\"",
            TextForm::AccessAddress => ACCESS_ADDRESS,
            TextForm::AccessCondition => "a condition about the request, such as 'method == \"GET\"'",
            TextForm::Rate => RATE,
            TextForm::JwtAlgorithm => JWT_ALGORITHM,
            TextForm::ClaimText => "a text without control characters",
            TextForm::SecureLink => SECURE_LINK,
            TextForm::ForwardKey => "\"method\", \"url\", \"client\", \"header:NAME\" or \"cookie:NAME\"",
            TextForm::RequestTarget => REQUEST_TARGET,
            TextForm::LimitKey => "\"client\", \"network\", \"route\", \"header:NAME\" or \"cookie:NAME\"",
        }
    }
}
