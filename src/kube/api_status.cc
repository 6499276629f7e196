// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/api_status.h"

#include <boost/json.hpp>

namespace dracpu::kube {
namespace {

constexpr std::size_t kMaxShown = 1024;  // of the server's words

}  // namespace

ApiStatus parse_status(std::string_view body) {
  ApiStatus out;
  boost::system::error_code ec;
  const boost::json::value root = boost::json::parse({body.data(), body.size()}, ec);
  if (ec || !root.is_object()) return out;
  const boost::json::object& fields = root.get_object();
  const auto text = [](const boost::json::object& from, const char* key) -> std::string {
    const boost::json::value* found = from.if_contains(key);
    return found != nullptr && found->is_string() ? std::string(found->get_string().c_str()) : std::string();
  };
  const boost::json::value* kind = fields.if_contains("kind");
  if (kind != nullptr && (!kind->is_string() || kind->get_string() != "Status")) return out;
  out.message = text(fields, "message");
  out.reason = text(fields, "reason");
  if (const boost::json::value* code = fields.if_contains("code"); code != nullptr && code->is_int64()) {
    out.code = static_cast<int>(code->get_int64());
  }
  const boost::json::value* details = fields.if_contains("details");
  if (details == nullptr || !details->is_object()) return out;
  const boost::json::value* wait = details->get_object().if_contains("retryAfterSeconds");
  if (wait != nullptr && wait->is_int64() && wait->get_int64() > 0 && wait->get_int64() < 86'400) {
    out.retry_after = std::chrono::seconds(wait->get_int64());
  }
  return out;
}

Error status_error(const Response& response) {
  Errc code = Errc::kUnavailable;
  if (response.status == 404 || response.status == 410) code = Errc::kNotFound;
  if (response.status == 409) code = Errc::kConflict;
  if (response.status == 400 || response.status == 422) code = Errc::kInvalidInput;
  const ApiStatus status = parse_status(response.body);
  std::string words = status.message.empty() ? response.body : status.message;
  if (words.size() > kMaxShown) words.resize(kMaxShown);
  for (char& c : words) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return make_error(code, "HTTP {}{}{}{}{}", response.status, status.reason.empty() ? "" : " ", status.reason,
                    words.empty() ? "" : ": ", words);
}

}  // namespace dracpu::kube
