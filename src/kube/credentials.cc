// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/credentials.h"

#include <cstdlib>

#include "base/file.h"
#include "base/strings.h"

namespace dracpu::kube {
namespace {

// The Go client caches a token file for 60 s and calls it stale 10 s earlier (spec 7.5).
constexpr std::chrono::seconds kReread{50};
constexpr std::size_t kMaxSecret = std::size_t{4} << 20U;

std::string clean_token(const std::string& text) { return std::string(trim(text)); }

// A token goes into a header line: a line break in it would end the line.
bool fits_header(std::string_view token) {
  for (const char c : token) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f) return false;
  }
  return true;
}

}  // namespace

Result<Endpoint> parse_server_url(std::string_view url) {
  const auto fail = [&](std::string_view why) {
    return make_error(Errc::kInvalidInput, "server \"{}\": {}", url, why);
  };
  Endpoint out;
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
    out.tls = false;
    out.port = 80;
  } else if (rest.find("://") != std::string_view::npos) {
    return fail("expected https:// or http://");
  }
  if (rest.find_first_of("?#@ \t\r\n") != std::string_view::npos) {
    return fail("expected only a host, a port and a path");
  }
  const std::size_t slash = rest.find('/');
  std::string_view authority = rest.substr(0, slash);
  if (slash != std::string_view::npos) out.path_prefix = rest.substr(slash);
  while (out.path_prefix.ends_with('/')) out.path_prefix.pop_back();

  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return fail("missing \"]\"");
    out.host = authority.substr(1, close - 1);
    authority.remove_prefix(close + 1);
    if (!authority.empty() && authority[0] != ':') return fail("expected \":\" after \"]\"");
    if (!authority.empty()) port = authority.substr(1);
    if (authority == ":") return fail("expected a port after \":\"");
  } else {
    const std::size_t colon = authority.find(':');
    out.host = authority.substr(0, colon);
    if (colon != std::string_view::npos) {
      port = authority.substr(colon + 1);
      if (port.empty() || port.find(':') != std::string_view::npos) return fail("bad port");
    }
  }
  if (out.host.empty()) return fail("no host");
  if (!port.empty()) {
    const std::optional<std::uint16_t> number = parse_number<std::uint16_t>(port);
    if (!number || *number == 0) return fail("bad port");
    out.port = *number;
  }
  return out;
}

Result<std::string> TextSource::read() const {
  if (!text.empty() || file.empty()) return text;
  return read_file(file, kMaxSecret);
}

Result<ClientConfig> load_client_config(const std::filesystem::path& kubeconfig) {
  if (!kubeconfig.empty()) return load_kubeconfig(kubeconfig);
  return load_in_cluster();
}

Result<ClientConfig> load_kubeconfig(const std::filesystem::path& path) {
  Result<std::string> text = read_file(path, kMaxSecret);
  if (!text.ok()) return std::move(text).error().while_doing("reading the kubeconfig");
  return parse_kubeconfig(*text, path.string(), path.parent_path());
}

std::string process_environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets variables
  return value == nullptr ? "" : value;
}

Result<ClientConfig> load_in_cluster(const Environment& environment, const std::filesystem::path& folder) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST");
  const std::string port = environment("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return make_error(Errc::kInvalidInput,
                      "no kubeconfig is given and KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are "
                      "not both set: not in a cluster");
  }
  const bool bare_ipv6 = host.find(':') != std::string::npos && host[0] != '[';
  const std::string authority = bare_ipv6 ? fmt::format("[{}]", host) : host;
  Result<Endpoint> endpoint = parse_server_url(fmt::format("https://{}:{}", authority, port));
  if (!endpoint.ok())
    return std::move(endpoint).error().while_doing("reading KUBERNETES_SERVICE_HOST and _PORT");
  ClientConfig out;
  out.endpoint = *std::move(endpoint);
  out.token.file = folder / "token";
  out.ca.file = folder / "ca.crt";
  return out;
}

Result<std::string> Credentials::token(Clock::time_point now) {
  if (!config_.token.given()) return std::string();
  if (token_ && now < token_until_) return *token_;
  // The file takes precedence, and the text beside it stands in while the file cannot be read.
  Result<std::string> fresh = config_.token.file.empty() ? Result<std::string>(config_.token.text)
                                                         : read_file(config_.token.file, kMaxSecret);
  if (fresh.ok()) {
    std::string token = clean_token(*fresh);
    if (token.empty()) {
      fresh = make_error(Errc::kInvalidInput, "token file \"{}\" is empty", config_.token.file.string());
    } else if (!fits_header(token)) {
      fresh = make_error(Errc::kInvalidInput, "the token holds a space or control character");
    } else {
      token_ = std::move(token);
    }
  }
  if (!fresh.ok()) {
    if (!token_ && !config_.token.file.empty() && !config_.token.text.empty()) {
      token_ = clean_token(config_.token.text);
    }
    if (!token_) return std::move(fresh).error().while_doing("reading the token");
  }
  token_until_ = now + kReread;
  return *token_;
}

Result<TlsMaterial> Credentials::tls(Clock::time_point now) {
  if (tls_ && now < tls_until_) return *tls_;
  TlsMaterial fresh;
  Error error;
  bool failed = false;
  const auto take = [&](const TextSource& source, std::string& into, std::string_view what) {
    Result<std::string> text = source.read();
    if (text.ok()) {
      into = *std::move(text);
    } else if (!failed) {
      failed = true;
      error = std::move(text).error().while_doing(what);
    }
  };
  take(config_.ca, fresh.ca, "reading the certificate authority");
  take(config_.client_cert, fresh.cert, "reading the client certificate");
  take(config_.client_key, fresh.key, "reading the client key");
  if (failed && !tls_) return error;
  if (!failed) tls_ = std::move(fresh);
  tls_until_ = now + kReread;
  return *tls_;
}

void Credentials::reload() {
  token_until_ = Clock::time_point{};
  tls_until_ = Clock::time_point{};
}

}  // namespace dracpu::kube
