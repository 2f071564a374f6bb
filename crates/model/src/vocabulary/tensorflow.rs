//! Vocabulary of TensorFlow and Keras: package folders. Their steps are numbered by an argument (`step_num`), which
//! sources read: `tf.profiler.experimental.Trace`, which Keras' `fit` writes around each batch. No name here was
//! observed in a recorded trace, as XProf shortens the files of frames.

use super::Framework;

pub(super) const FRAMEWORK: Framework = Framework {
    packages: &["tensorflow/", "keras/", "tf_keras/", "tensorflow_datasets/"],
    ..Framework::named("TensorFlow")
};
