// The named parameters of a model, by role. Views into the checkpoint: [out, in] row-major weights, [out] biases.
// A view without data (`data == nullptr`) is a parameter that the architecture does not have.
#pragma once

#include <vector>

#include "model_loader/tensor.h"

namespace lion {

struct LinearWeights {
  TensorView weight;  // [out, in]
  TensorView bias;    // [out]
};

struct NormWeights {
  TensorView weight;  // [D]
  TensorView bias;    // [D]
};

// One pre-norm vision block (docs/mathematics.md, section 3).
struct VisionBlockWeights {
  NormWeights norm1;
  LinearWeights qkv;    // [3 D, D], laid out [3, H, d]
  LinearWeights gate;   // LION-S: a_i, weight [H, D], bias [H]
  LinearWeights gate2;  // LION-S, order S: a2_i, the columns' gates
  TensorView decay;     // LION-D: a_i [H]
  TensorView decay2;    // LION-D, order S: a2_i [H]
  LinearWeights proj;   // [D, D]
  NormWeights norm2;
  LinearWeights fc1;  // [mlp, D]
  LinearWeights fc2;  // [D, mlp]
};

struct VisionWeights {
  LinearWeights patch;   // weight [D, 3, P, P]
  TensorView cls_token;  // [1, 1, D]
  TensorView pos_embed;  // [1, 1 + grid * grid, D], or absent
  std::vector<VisionBlockWeights> blocks;
  NormWeights norm;
  LinearWeights head;  // [classes, D], or absent
};

// One post-norm text layer (section 4).
struct TextLayerWeights {
  LinearWeights query, key, value;  // [D, D] each
  LinearWeights gate;               // LION-S: Wa_i [H, D]
  TensorView decay;                 // LION-D: ai [H]
  NormWeights mixer_norm;           // layer_norm_after
  LinearWeights attention_output;   // [D, D]
  NormWeights attention_norm;
  LinearWeights intermediate;  // [mlp, D]
  LinearWeights output;        // [D, mlp]
  NormWeights output_norm;
};

struct TextWeights {
  TensorView word_embeddings;      // [rows >= vocabulary, D]
  TensorView position_embeddings;  // [max_positions, D], or absent
  TensorView type_embeddings;      // [type_vocabulary, D]
  NormWeights embeddings_norm;
  std::vector<TextLayerWeights> layers;
  LinearWeights pooler;     // [D, D], or absent
  LinearWeights mlm_dense;  // [D, D], or absent
  NormWeights mlm_norm;
  TensorView mlm_decoder;    // [rows, D]: its own tensor, or the word embeddings
  TensorView mlm_bias;       // [rows]
  LinearWeights classifier;  // [classes, D], or absent
};

}  // namespace lion
