// Certificates and tokens as their files have them, read again when the files change.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/clock.h"
#include "server/mutex.h"
#include "server/security/tls_files.h"
#include "server/security/token_list.h"

namespace lion {

struct SecretPaths {
  TlsPaths tls;            // without a certificate: no TLS
  std::string token_file;  // empty: no tokens, everybody is let in
};

// The files are compared by content, once a second, so that it does not matter how they are replaced. What cannot be
// used (a certificate whose new key is not there yet, a file that is gone) changes nothing, is said once, and is tried
// again.
class Secrets {
 public:
  // `log`: gets a line when something new is used, or cannot be (`problem`); called by Refresh, and by this once all is
  // well. FAILED_PRECONDITION: a file cannot be used. INVALID_ARGUMENT: one flag lacks another. `clock` must outlive
  // it.
  static absl::StatusOr<std::unique_ptr<Secrets>> Load(const SecretPaths& paths, Clock* clock,
                                                       std::function<void(const std::string& line, bool problem)> log);
  ~Secrets();

  // Null: none. What is returned stays as it is. From any thread, as what follows.
  std::shared_ptr<const TlsFiles> tls() const;
  std::shared_ptr<const TokenList> tokens() const;

  // Looks at the files now.
  void Refresh();

 private:
  Secrets(const SecretPaths& paths, Clock* clock, std::function<void(const std::string& line, bool problem)> log);

  absl::Status LoadTls() ABSL_EXCLUSIVE_LOCKS_REQUIRED(refresh_mutex_);
  absl::Status LoadTokens() ABSL_EXCLUSIVE_LOCKS_REQUIRED(refresh_mutex_);
  void TellNews() ABSL_EXCLUSIVE_LOCKS_REQUIRED(refresh_mutex_);
  void Watch();

  const SecretPaths paths_;
  Clock* const clock_;
  const std::function<void(const std::string& line, bool problem)> log_;

  Mutex refresh_mutex_;
  std::vector<std::string> news_ ABSL_GUARDED_BY(refresh_mutex_);  // what is used now, to be said
  std::string told_ ABSL_GUARDED_BY(refresh_mutex_);               // the problem that was said last

  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<const TlsFiles> tls_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const TokenList> tokens_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;
};

}  // namespace lion
