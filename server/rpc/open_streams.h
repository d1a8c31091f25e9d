// The streams that are open, so that they can be told to end.
#pragma once

#include <set>

#include "server/mutex.h"

namespace lion {

// All methods may be called from any thread; outlives its streams.
class OpenStreams {
 public:
  class Stream {
   public:
    // Answers what was read, then ends.
    virtual void Drain() = 0;

   protected:
    ~Stream() = default;
  };

  // `stream` is told at once when the draining has begun.
  void Add(Stream* stream) {
    MutexLock lock(mutex_);
    streams_.insert(stream);
    if (draining_) stream->Drain();
  }
  void Remove(Stream* stream) {
    MutexLock lock(mutex_);
    streams_.erase(stream);
  }
  // All of them, and every one that comes later.
  void Drain() {
    MutexLock lock(mutex_);
    draining_ = true;
    for (Stream* stream : streams_) stream->Drain();
  }

 private:
  Mutex mutex_;
  std::set<Stream*> streams_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lion
