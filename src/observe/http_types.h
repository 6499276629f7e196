// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What handlers of our HTTP endpoints see of a request, and what they give back.

#ifndef DRACPU_OBSERVE_HTTP_TYPES_H_
#define DRACPU_OBSERVE_HTTP_TYPES_H_

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

namespace dracpu::observe {

struct HttpRequest {
  std::string method;  // "GET", "HEAD" or "PUT"; the server has refused the rest
  std::string path;    // without the query, not decoded
  std::string query;   // after "?", not decoded
  std::string accept;  // the Accept header

  // True for "?name", "?name=anything" and the same between "&".
  bool has_query(std::string_view name) const {
    return any_item([&](std::string_view item) { return item.substr(0, item.find('=')) == name; });
  }
  // The text after "name=", not decoded; empty if it is not there.
  std::string_view query_value(std::string_view name) const {
    std::string_view out;
    any_item([&](std::string_view item) {
      if (item.size() <= name.size() || !item.starts_with(name) || item[name.size()] != '=') return false;
      out = item.substr(name.size() + 1);
      return true;
    });
    return out;
  }

 private:
  // True if `is_it` says so of one of the items between "&", in order.
  template <typename F>
  bool any_item(F&& is_it) const {
    for (std::string_view rest = query; !rest.empty();) {
      const std::string_view item = rest.substr(0, rest.find('&'));
      if (is_it(item)) return true;
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    }
    return false;
  }
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

}  // namespace dracpu::observe

#endif  // DRACPU_OBSERVE_HTTP_TYPES_H_
