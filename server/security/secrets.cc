#include "server/security/secrets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/security/read_file.h"

namespace lion {
namespace {

constexpr int64_t kPollNs = 1'000'000'000;

absl::Status CheckPaths(const SecretPaths& paths) {
  if (paths.tls.certificate.empty() != paths.tls.key.empty()) {
    return absl::InvalidArgumentError(paths.tls.key.empty() ? "--tls-cert is given without --tls-key"
                                                            : "--tls-key is given without --tls-cert");
  }
  if (!paths.tls.client_ca.empty() && paths.tls.certificate.empty()) {
    return absl::InvalidArgumentError("--tls-client-ca is given without --tls-cert and --tls-key");
  }
  return absl::OkStatus();
}

}  // namespace

Secrets::Secrets(const SecretPaths& paths, Clock* clock, std::function<void(const std::string&, bool)> log)
    : paths_(paths), clock_(clock), log_(std::move(log)) {}

Secrets::~Secrets() {
  if (!watcher_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  watcher_.join();
}

absl::StatusOr<std::unique_ptr<Secrets>> Secrets::Load(const SecretPaths& paths, Clock* clock,
                                                       std::function<void(const std::string&, bool)> log) {
  if (absl::Status status = CheckPaths(paths); !status.ok()) return status;
  std::unique_ptr<Secrets> secrets(new Secrets(paths, clock, std::move(log)));
  {
    MutexLock lock(secrets->refresh_mutex_);
    if (absl::Status status = secrets->LoadTls(); !status.ok()) return status;
    if (absl::Status status = secrets->LoadTokens(); !status.ok()) return status;
    secrets->TellNews();
  }
  if (!paths.tls.certificate.empty() || !paths.token_file.empty()) {
    secrets->watcher_ = std::thread([raw = secrets.get()] { raw->Watch(); });
  }
  return secrets;
}

std::shared_ptr<const TlsFiles> Secrets::tls() const {
  MutexLock lock(mutex_);
  return tls_;
}

std::shared_ptr<const TokenList> Secrets::tokens() const {
  MutexLock lock(mutex_);
  return tokens_;
}

void Secrets::Refresh() {
  MutexLock lock(refresh_mutex_);
  std::string problems;
  const absl::Status of_tls = LoadTls(), of_tokens = LoadTokens();
  TellNews();
  for (const absl::Status& status : {of_tls, of_tokens}) {
    if (!status.ok()) absl::StrAppend(&problems, status.message(), "; ");
  }
  if (!problems.empty()) problems += "what was read before stays in use";
  if (problems == told_) return;
  told_ = problems;
  if (!problems.empty()) log_(problems, /*problem=*/true);
}

absl::Status Secrets::LoadTls() {
  if (paths_.tls.certificate.empty()) return absl::OkStatus();
  absl::StatusOr<TlsFiles> files = ReadTlsFiles(paths_.tls);
  if (!files.ok()) return files.status();
  const std::shared_ptr<const TlsFiles> used = tls();
  if (used != nullptr && files->certificate_chain == used->certificate_chain &&
      files->private_key == used->private_key && files->client_ca == used->client_ca) {
    return absl::OkStatus();
  }
  if (absl::Status status = CheckTlsFiles(paths_.tls, &*files); !status.ok()) return status;
  news_.push_back(absl::StrCat("TLS certificate of ", files->summary,
                               files->client_ca.empty() ? "" : "; callers need a certificate"));
  MutexLock lock(mutex_);
  tls_ = std::make_shared<const TlsFiles>(*std::move(files));
  return absl::OkStatus();
}

absl::Status Secrets::LoadTokens() {
  if (paths_.token_file.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadSecretFile("--token-file", paths_.token_file);
  if (!text.ok()) return text.status();
  absl::StatusOr<TokenList> list = TokenList::Parse(*text);
  if (!list.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--token-file ", paths_.token_file, ": ", list.status().message()));
  }
  if (const std::shared_ptr<const TokenList> used = tokens(); used != nullptr && *used == *list)
    return absl::OkStatus();
  news_.push_back(absl::StrCat("callers need one of ", list->size(), " tokens"));
  MutexLock lock(mutex_);
  tokens_ = std::make_shared<const TokenList>(*std::move(list));
  return absl::OkStatus();
}

void Secrets::TellNews() {
  for (const std::string& line : news_) log_(line, /*problem=*/false);
  news_.clear();
}

void Secrets::Watch() {
  int64_t next_ns = clock_->NowNs() + kPollNs;
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!stop_ && clock_->NowNs() < next_ns) clock_->WaitUntil(changed_, mutex_, next_ns);
      if (stop_) return;
    }
    Refresh();
    next_ns = clock_->NowNs() + kPollNs;
  }
}

}  // namespace lion
