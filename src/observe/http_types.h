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
    std::string_view rest = query;
    while (!rest.empty()) {
      const std::size_t end = rest.find('&');
      const std::string_view item = rest.substr(0, end);
      if (item.substr(0, item.find('=')) == name) return true;
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
    return false;
  }
  // The text after "name=", not decoded; empty if it is not there.
  std::string_view query_value(std::string_view name) const {
    std::string_view rest = query;
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find('&'));
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
      if (item.size() > name.size() && item.starts_with(name) && item[name.size()] == '=')
        return item.substr(name.size() + 1);
    }
    return {};
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
