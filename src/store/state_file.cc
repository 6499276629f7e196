// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "store/state_file.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "base/strings.h"

namespace dracpu::store {
namespace {

constexpr Version kOwn;
constexpr std::string_view kMagic = "dracpu-state ";
constexpr std::size_t kMaxHeader = 200;
constexpr std::string_view kAside = ".unreadable-";

std::string sha256_hex(std::string_view data) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  if (EVP_Digest(data.data(), data.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1)
    return "unavailable";
  std::string out;
  for (unsigned int i = 0; i < length; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

Error corrupt(std::string_view what) { return make_error(Errc::kCorrupt, "{}", what); }

}  // namespace

std::string seal(std::string_view payload, Version version) {
  return fmt::format("{}{}.{} sha256={} bytes={}\n{}", kMagic, version.major, version.minor,
                     sha256_hex(payload), payload.size(), payload);
}

Result<Unsealed> unseal(std::string_view bytes) {
  const std::size_t end = bytes.substr(0, kMaxHeader).find('\n');
  if (end == std::string_view::npos || !bytes.starts_with(kMagic))
    return corrupt("the first line is not a state header");
  const std::vector<std::string_view> words = split(bytes.substr(kMagic.size(), end - kMagic.size()), ' ');
  if (words.size() < 3) return corrupt("the first line is not a state header");
  const std::vector<std::string_view> version = split(words[0], '.');
  const std::optional<int> major = version.size() == 2 ? parse_number<int>(version[0]) : std::nullopt;
  const std::optional<int> minor = version.size() == 2 ? parse_number<int>(version[1]) : std::nullopt;
  if (!major || !minor || *minor < 0) return corrupt("the version in the first line is not a version");
  if (*major != kOwn.major) {
    return make_error(Errc::kUnsupported, "format {} is not known to this release, which reads {}.x",
                      words[0], kOwn.major);
  }
  const std::string_view payload = bytes.substr(end + 1);
  if (words[2] != fmt::format("bytes={}", payload.size())) {
    return make_error(Errc::kCorrupt, "{} bytes follow the first line, which says {}", payload.size(),
                      words[2]);
  }
  if (words[1] != "sha256=" + sha256_hex(payload)) return corrupt("the checksum does not match the content");
  return Unsealed{{*major, *minor}, std::string(payload)};
}

Result<std::string> StateFile::load() {
  Result<std::string> bytes = read_file(path_, std::size_t{64} << 20U);
  if (!bytes.ok()) return std::move(bytes).error();
  Result<Unsealed> content = unseal(*bytes);
  if (!content.ok())
    return std::move(content).error().while_doing(fmt::format("state file \"{}\"", path_.string()));
  version_ = content->version;
  return std::move(content->payload);
}

Status StateFile::save(std::string_view payload) {
  std::error_code ec;
  const std::filesystem::path folder = path_.parent_path();
  if (!std::filesystem::exists(folder, ec)) {
    std::filesystem::create_directories(folder, ec);
    if (ec) return make_error(Errc::kUnavailable, "make folder \"{}\": {}", folder.string(), ec.message());
    std::filesystem::permissions(folder, std::filesystem::perms(0750), ec);
  }
  return replace_file(ops_, path_, seal(payload, {kOwn.major, std::max(kOwn.minor, version_.minor)}), 0600);
}

Status StateFile::can_save() const {
  std::error_code ec;
  std::filesystem::path folder = path_.parent_path();
  while (folder.has_relative_path() && !std::filesystem::exists(folder, ec)) folder = folder.parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return ok_status();
  return make_error(Errc::kUnavailable, "state file \"{}\": folder \"{}\": {}", path_.string(),
                    folder.string(), errno_text(errno));
}

Result<std::filesystem::path> StateFile::set_aside() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string name = fmt::format("{}{}{}", path_.string(), kAside,
                                       std::chrono::duration_cast<std::chrono::seconds>(now).count());
  std::filesystem::path to = name;
  // A second one in the same second, or after the clock was set back.
  std::error_code failed;
  for (int n = 2; std::filesystem::exists(std::filesystem::symlink_status(to, failed)); ++n)
    to = fmt::format("{}-{}", name, n);
  if (Status s = ops_.rename(path_, to); !s.ok()) return std::move(s).error();
  return to;
}

std::vector<std::filesystem::path> StateFile::kept_aside() const {
  const std::string prefix = path_.filename().string() + std::string(kAside);
  std::vector<std::filesystem::path> out;
  std::error_code failed;
  std::filesystem::directory_iterator it(path_.parent_path(), failed);
  for (; !failed && it != std::filesystem::directory_iterator(); it.increment(failed)) {
    if (it->path().filename().string().starts_with(prefix)) out.push_back(it->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace dracpu::store
