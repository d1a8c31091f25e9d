// Images: from a file or from pixels.
#pragma once

#include "server/input_preparer.h"

namespace lion {

class ImagePreparer : public InputPreparer {
 public:
  // `max_tokens`: of one input. `max_decode_bytes`: an image that needs more is refused.
  ImagePreparer(const Engine* engine, int64_t max_tokens, int64_t max_decode_bytes, PreparePool* pool)
      : engine_(engine), max_tokens_(max_tokens), max_decode_bytes_(max_decode_bytes), pool_(pool) {}

  absl::StatusOr<InputCost> Check(const InferenceCall& call, const InferenceInput& input,
                                  PreparedInput* prepared) const override;
  absl::StatusOr<PreparedInput> Prepare(const InferenceCall& call, const InferenceInput& input) const override;
  PreparePool* pool() const override { return pool_; }
  // Of the size the model was trained at, or of one patch where that is too large.
  absl::StatusOr<PreparedInput> Blank() const override;

 private:
  // INVALID_ARGUMENT: too small for the model, or more than max_tokens_.
  absl::StatusOr<int64_t> CheckTokens(int64_t height, int64_t width) const;

  const Engine* const engine_;
  const int64_t max_tokens_;
  const int64_t max_decode_bytes_;
  PreparePool* const pool_;
};

}  // namespace lion
