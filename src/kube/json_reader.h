// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Reads typed fields from JSON that came over the network, and says where one is wrong.
//
// Absent and null fields give the default; a wrong type is remembered with its path (the first one counts)
// and gives the default, so that a caller reads everything and asks error() once at the end.
// Errors  kCorrupt
// Threads One at a time. Views into the parsed document: it must outlive them.

#ifndef DRACPU_KUBE_JSON_READER_H_
#define DRACPU_KUBE_JSON_READER_H_

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dracpu::kube {

class JsonErrors {
 public:
  void expected(std::string_view path, std::string_view what) {
    if (!first_) first_ = make_error(Errc::kCorrupt, "{}: expected {}", path, what);
  }
  const std::optional<Error>& first() const { return first_; }

 private:
  std::optional<Error> first_;
};

// An object in the document, or an absent one, which has no fields.
class JsonObject {
 public:
  JsonObject(JsonErrors& errors, const boost::json::object* fields, std::string path)
      : errors_(&errors), fields_(fields), path_(std::move(path)) {}

  bool present() const { return fields_ != nullptr; }
  const boost::json::object* raw() const { return fields_; }
  const std::string& path() const { return path_; }
  std::string path_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }
  void expected(std::string_view key, std::string_view what) const { errors_->expected(path_of(key), what); }

  // The value of `key`; nullptr when absent or null.
  const boost::json::value* find(std::string_view key) const {
    if (fields_ == nullptr) return nullptr;
    const boost::json::value* found = fields_->if_contains({key.data(), key.size()});
    return found == nullptr || found->is_null() ? nullptr : found;
  }

  std::string text(std::string_view key) const {
    const boost::json::value* found = find(key);
    if (found == nullptr) return {};
    if (!found->is_string()) {
      expected(key, "a string");
      return {};
    }
    return {found->get_string().data(), found->get_string().size()};
  }

  std::int64_t integer(std::string_view key) const {
    const boost::json::value* found = find(key);
    if (found == nullptr) return 0;
    if (!found->is_int64()) {
      expected(key, "an integer");
      return 0;
    }
    return found->get_int64();
  }

  bool flag(std::string_view key) const {
    const boost::json::value* found = find(key);
    if (found == nullptr) return false;
    if (!found->is_bool()) {
      expected(key, "true or false");
      return false;
    }
    return found->get_bool();
  }

  JsonObject object(std::string_view key) const {
    const boost::json::value* found = find(key);
    if (found != nullptr && !found->is_object()) {
      expected(key, "an object");
      found = nullptr;
    }
    return {*errors_, found == nullptr ? nullptr : &found->get_object(), path_of(key)};
  }

  std::vector<JsonObject> objects(std::string_view key) const {
    std::vector<JsonObject> out;
    each(key, [&](const boost::json::value& item, std::string path) {
      if (item.is_object()) return out.emplace_back(*errors_, &item.get_object(), std::move(path)), void();
      errors_->expected(path, "an object");
    });
    return out;
  }

  std::vector<std::string> texts(std::string_view key) const {
    std::vector<std::string> out;
    each(key, [&](const boost::json::value& item, const std::string& path) {
      if (item.is_string()) return out.emplace_back(item.get_string().c_str()), void();
      errors_->expected(path, "a string");
    });
    return out;
  }

 private:
  template <typename F>
  void each(std::string_view key, F&& f) const {
    const boost::json::value* found = find(key);
    if (found == nullptr) return;
    if (!found->is_array()) return expected(key, "a list");
    std::size_t index = 0;
    for (const boost::json::value& item : found->get_array())
      f(item, fmt::format("{}[{}]", path_of(key), index++));
  }

  JsonErrors* errors_;
  const boost::json::object* fields_;
  std::string path_;
};

// A document whose root must be an object.
inline Result<boost::json::value> parse_json_object(std::string_view text) {
  boost::system::error_code ec;
  boost::json::value root = boost::json::parse({text.data(), text.size()}, ec);
  if (ec) return make_error(Errc::kCorrupt, "not JSON: {}", ec.message());
  if (!root.is_object()) return make_error(Errc::kCorrupt, "expected a JSON object");
  return root;
}

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_JSON_READER_H_
