//! Generic functions, closures, methods of traits.

pub trait Area {
    fn area(&self) -> f64;
}

pub struct Circle(pub f64);

pub struct Pair<A, B>(pub A, pub B);

impl Area for Circle {
    #[inline(always)]
    fn area(&self) -> f64 {
        self.0 * self.0 * 3.14
    }
}

impl<A: Area, B: Area> Area for Pair<A, B> {
    #[inline(never)]
    fn area(&self) -> f64 {
        self.0.area() + self.1.area()
    }
}

#[inline(never)]
fn total(shapes: &[Box<dyn Area>]) -> f64 {
    shapes.iter().map(|shape| shape.area()).filter(|area| *area > 0.5).sum()
}

#[unsafe(no_mangle)]
pub extern "C" fn entry_of_rust(radius: f64) -> f64 {
    let shapes: Vec<Box<dyn Area>> =
        vec![Box::new(Circle(radius)), Box::new(Pair(Circle(radius), Circle(2.0 * radius)))];
    let mut sorted: Vec<u64> = shapes.iter().map(|shape| shape.area() as u64).collect();
    sorted.sort_unstable();
    total(&shapes) + sorted.iter().rev().take(1).sum::<u64>() as f64
}
