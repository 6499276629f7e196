// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "upgrade/lists.h"

#include <future>
#include <memory>
#include <utility>

#include "kube/json_reader.h"

namespace dracpu::upgrade {
namespace {

namespace json = boost::json;

constexpr int kGone = 410;  // the continue token is too old
constexpr std::size_t kMostPages = 20'000;

}  // namespace

std::vector<Result<kube::Response>> Lists::get_all(const std::vector<std::string>& paths,
                                                   std::chrono::milliseconds limit) {
  std::vector<std::future<Result<kube::Response>>> waiting;
  waiting.reserve(paths.size());
  for (const std::string& path : paths) {
    auto promise = std::make_shared<std::promise<Result<kube::Response>>>();
    waiting.push_back(promise->get_future());
    client_.send({kube::Method::kGet, path, ""}, Deadline::after(limit),
                 [promise](Result<kube::Response> answer) { promise->set_value(std::move(answer)); });
  }
  std::vector<Result<kube::Response>> out;
  out.reserve(waiting.size());
  for (std::future<Result<kube::Response>>& answer : waiting) out.push_back(answer.get());
  return out;
}

Result<kube::Response> Lists::get(const std::string& path) {
  return std::move(get_all({path}, limit_).front());
}

Result<json::value> Lists::object(const std::string& path) {
  Result<kube::Response> answer = get(path);
  if (!answer.ok()) return std::move(answer).error();
  if (!answer->ok()) return kube::status_error(*answer);
  return kube::parse_json_object(answer->body);
}

Status Lists::each(const std::string& path, const std::function<void(const json::object&)>& item,
                   const std::function<void()>& restart) {
  const char* separator = path.find('?') == std::string::npos ? "?" : "&";
  const std::string first = fmt::format("{}{}limit={}", path, separator, page_);
  std::string next = first;
  bool is_second_time = false;
  for (std::size_t pages = 0; pages < kMostPages; ++pages) {
    Result<kube::Response> answer = get(next);
    if (!answer.ok()) return std::move(answer).error();
    if (answer->status == kGone && next != first && !is_second_time) {
      is_second_time = true;
      next = first;
      restart();
      continue;
    }
    if (!answer->ok()) return kube::status_error(*answer);
    const Result<json::value> page = kube::parse_json_object(answer->body);
    if (!page.ok()) return page.error();
    kube::JsonErrors errors;
    const kube::JsonObject root(errors, &page->get_object(), "");
    for (const kube::JsonObject& object : root.objects("items")) item(*object.raw());
    const std::string token = root.object("metadata").text("continue");
    if (errors.first()) return *errors.first();
    if (token.empty()) return ok_status();
    next = fmt::format("{}&continue={}", first, kube::url_escape(token));
  }
  return make_error(Errc::kCorrupt, "the list does not end");
}

}  // namespace dracpu::upgrade
