#include "server/model_disposer.h"

#include <pthread.h>

#include <utility>

namespace lion {

ModelDisposer::ModelDisposer(std::function<void(const ModelInfo&)> destroyed)
    : destroyed_(std::move(destroyed)), thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), "lion-disposer");
}

ModelDisposer::~ModelDisposer() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

SharedModel ModelDisposer::Share(std::unique_ptr<ModelService> model) {
  auto place = std::make_unique<Place>();
  place->model = std::move(model);
  ModelService* const shared = place->model.get();
  {
    MutexLock lock(mutex_);
    ++shared_;
  }
  // Should there be no memory for the count, the deleter is called.
  return SharedModel(shared, [this, place = place.release()](ModelService*) { Retire(place); });
}

void ModelDisposer::Retire(Place* place) {
  MutexLock lock(mutex_);
  place->next = std::exchange(retired_, place);
  --shared_;
  // With the lock held: once it is free, the disposer may be gone.
  changed_.NotifyAll();
}

ModelDisposer::Place* ModelDisposer::Next() {
  MutexLock lock(mutex_);
  while (retired_ == nullptr) {
    if (stopping_ && shared_ == 0) return nullptr;
    changed_.Wait(mutex_);
  }
  Place* const place = retired_;
  retired_ = place->next;
  return place;
}

void ModelDisposer::Loop() {
  while (Place* const next = Next()) {
    const std::unique_ptr<Place> place(next);
    const ModelInfo info = place->model->info();
    place->model.reset();
    if (destroyed_) destroyed_(info);
  }
}

}  // namespace lion
