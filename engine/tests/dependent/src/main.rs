fn main() {
    assert_eq!(dependent::greet(), 4_03_05);
}
