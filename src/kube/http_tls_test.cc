// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The client against a TLS server whose certificates are made here.

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include "base/strings.h"
#include "kube/http_client.h"

namespace dracpu::kube {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::seconds;

struct FreeKey {
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(X509_EXTENSION* p) const { X509_EXTENSION_free(p); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using Cert = std::unique_ptr<X509, FreeKey>;

struct Identity {
  Key key;
  Cert cert;

  std::string key_pem() const {
    const std::unique_ptr<BIO, FreeKey> bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return text_of(bio.get());
  }
  std::string cert_pem() const {
    const std::unique_ptr<BIO, FreeKey> bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), cert.get());
    return text_of(bio.get());
  }

 private:
  static std::string text_of(BIO* bio) {
    std::string out(static_cast<std::size_t>(BIO_pending(bio)), '\0');
    BIO_read(bio, out.data(), static_cast<int>(out.size()));
    return out;
  }
};

// Signed by `issuer`, or by itself as an authority.
Identity issue(const std::string& name, const Identity* issuer, const std::string& alt_names = "") {
  static long serial = 0;
  Identity out{Key(EVP_EC_gen("P-256")), Cert(X509_new())};
  X509* cert = out.cert.get();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, out.key.get());
  X509_NAME* subject = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(cert, issuer == nullptr ? subject : X509_get_subject_name(issuer->cert.get()));
  const auto extend = [cert](int nid, const std::string& value) {
    const std::unique_ptr<X509_EXTENSION, FreeKey> e(
        X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str()));
    X509_add_ext(cert, e.get(), -1);
  };
  extend(NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
  if (!alt_names.empty()) extend(NID_subject_alt_name, alt_names);
  X509_sign(cert, issuer == nullptr ? out.key.get() : issuer->key.get(), EVP_sha256());
  return out;
}

// Answers each request with the name in the client's certificate.
class TlsServer {
 public:
  TlsServer() {
    acceptor_.listen();
    thread_ = std::thread([this] { serve(); });
  }
  ~TlsServer() {
    stopping_ = true;
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void use(const Identity& identity, const Identity* client_authority = nullptr) {
    auto fresh = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    fresh->use_certificate(asio::buffer(identity.cert_pem()), asio::ssl::context::pem);
    fresh->use_private_key(asio::buffer(identity.key_pem()), asio::ssl::context::pem);
    if (client_authority != nullptr) {
      fresh->add_certificate_authority(asio::buffer(client_authority->cert_pem()));
      fresh->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    context_ = std::move(fresh);
  }

 private:
  void serve() {
    while (!stopping_) {
      tcp::socket socket(io_);
      boost::system::error_code ec;
      acceptor_.accept(socket, ec);
      if (ec) return;
      std::shared_ptr<asio::ssl::context> context;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        context = context_;
      }
      asio::ssl::stream<tcp::socket> stream(std::move(socket), *context);
      stream.handshake(asio::ssl::stream_base::server, ec);
      if (ec) continue;
      std::string in;
      asio::read_until(stream, asio::dynamic_buffer(in), "\r\n\r\n", ec);
      if (ec) continue;
      char name[100] = "nobody";
      if (const Cert peer(SSL_get1_peer_certificate(stream.native_handle())); peer) {
        X509_NAME_get_text_by_NID(X509_get_subject_name(peer.get()), NID_commonName, name, sizeof name);
      }
      const std::string body = name;
      asio::write(
          stream,
          asio::buffer(fmt::format("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
                                   body.size(), body)),
          ec);
    }
  }

  asio::io_context io_;
  tcp::acceptor acceptor_{io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::shared_ptr<asio::ssl::context> context_;
  std::thread thread_;
};

class Tls : public ::testing::Test {
 protected:
  Tls() {
    server.use(issue("server", &authority, "IP:127.0.0.1,DNS:localhost,DNS:api.example"));
    config.endpoint = {true, "127.0.0.1", server.port(), ""};
    config.ca.text = authority.cert_pem();
  }
  Result<Response> call(HttpClient& client) {
    auto promise = std::make_shared<std::promise<Result<Response>>>();
    client.send({Method::kGet, "/", ""}, Deadline::after(seconds(10)),
                [promise](Result<Response> r) { promise->set_value(std::move(r)); });
    return promise->get_future().get();
  }
  Result<Response> call(const ClientConfig& with) {
    Result<std::unique_ptr<HttpClient>> client = HttpClient::create(with);
    if (!client.ok()) return client.error();
    return call(**client);
  }

  Identity authority = issue("authority", nullptr);
  Identity other = issue("other", nullptr);
  TlsServer server;
  ClientConfig config;
};

TEST_F(Tls, TheServerMustBeTheOneWeMean) {
  struct Case {
    const char* about;
    const char* host;
    const char* name;
    bool right_ca;
    bool skip;
    const char* says;  // nullptr: works
  };
  for (const Case& c : std::initializer_list<Case>{
           {"by address", "127.0.0.1", "", true, false, nullptr},
           {"by name", "localhost", "", true, false, nullptr},
           {"by another name", "127.0.0.1", "api.example", true, false, nullptr},
           {"wrong name", "127.0.0.1", "elsewhere.example", true, false, "hostname mismatch"},
           {"wrong address", "127.0.0.1", "127.0.0.2", true, false, "IP address mismatch"},
           {"unknown authority", "127.0.0.1", "", false, false, "certificate"},
           {"told not to look", "127.0.0.1", "elsewhere.example", false, true, nullptr},
       }) {
    SCOPED_TRACE(c.about);
    ClientConfig with = config;
    with.endpoint.host = c.host;
    with.tls_server_name = c.name;
    with.ca.text = c.skip ? "" : c.right_ca ? authority.cert_pem() : other.cert_pem();
    with.skip_verify = c.skip;
    const Result<Response> got = call(with);
    ASSERT_EQ(got.ok(), c.says == nullptr) << (got.ok() ? "" : got.error().text);
    if (c.says != nullptr) {
      EXPECT_EQ(got.error().code, Errc::kUnavailable);
      EXPECT_NE(got.error().text.find(c.says), std::string::npos) << got.error().text;
    }
  }
}

TEST_F(Tls, ClientCertificatesAreSent) {
  server.use(issue("server", &authority, "IP:127.0.0.1"), &authority);
  EXPECT_FALSE(call(config).ok());
  const Identity client = issue("the-driver", &authority);
  config.client_cert.text = client.cert_pem();
  config.client_key.text = client.key_pem();
  const Result<Response> got = call(config);
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->body, "the-driver");
}

TEST_F(Tls, ReplacedFilesAreUsedAtOnceWhenTheOldOnesFail) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / ("dracpu-ca-" + random_hex(8));
  std::ofstream(file) << authority.cert_pem();
  config.ca = {"", file};
  Result<std::unique_ptr<HttpClient>> client = HttpClient::create(config);
  ASSERT_TRUE(client.ok()) << client.error().text;
  EXPECT_TRUE(call(**client).ok());
  server.use(issue("server", &other, "IP:127.0.0.1"));
  EXPECT_FALSE(call(**client).ok());
  std::ofstream(file) << other.cert_pem();
  const Result<Response> got = call(**client);
  EXPECT_TRUE(got.ok()) << got.error().text;
  std::filesystem::remove(file);
}

TEST_F(Tls, UnusableCertificatesAreNamed) {
  struct Case {
    const char* about;
    std::string ca;
    std::string cert;
    std::string key;
    const char* says;
  };
  const Identity client = issue("c", &authority);
  for (const Case& c : std::initializer_list<Case>{
           {"no authority", "junk", "", "", "certificate authority"},
           {"no certificate", authority.cert_pem(), "junk", client.key_pem(), "client certificate"},
           {"no key", authority.cert_pem(), client.cert_pem(), "junk", "client key"},
           {"somebody else's key", authority.cert_pem(), client.cert_pem(), other.key_pem(), "client key"},
       }) {
    SCOPED_TRACE(c.about);
    ClientConfig with = config;
    with.ca.text = c.ca;
    with.client_cert.text = c.cert;
    with.client_key.text = c.key;
    const Result<std::unique_ptr<HttpClient>> made = HttpClient::create(with);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().text.find(c.says), std::string::npos) << made.error().text;
  }
}

}  // namespace
}  // namespace dracpu::kube
